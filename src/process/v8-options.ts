import { setFlagsFromString } from 'node:v8'
import type { Clock } from '../clock.js'

const longestStartMs = 60_000

/**
 * Sets V8 options for the start, which builds each of 10,000 Services once on few cores (docs/benchmarks.md has the savings). NB: call it
 * after all modules are loaded: V8 compiles modules that Node loads later without the code cache.
 */
export function prepareV8(clock: Pick<Clock, 'every'>): void {
  // Inlines at most 100 bytes of bytecode per function, not 920: the compiler competes with the start for CPU.
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=100')
  // Grows the young generation to its final size in one step: objects of the start survive, so early collections free nothing.
  setFlagsFromString('--semi-space-growth-factor=16')
  // Collects the young generation only when it is full.
  setFlagsFromString('--no-minor-gc-task')
  // Lets the old generation grow to six times its size between full collections.
  setFlagsFromString('--heap-growing-percent=500')
  // Objects of the start live long, later ones do not. Without this option V8 learns from the start to put later objects into the old
  // generation, where they and their references stay until a full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // Also ends a start that takes too long.
  const cancel = clock.every(longestStartMs, () => {
    cancel()
    endStartOfV8()
  })
}

/**
 * Ends the settings that `prepareV8` made only for the start. Idempotent. After the next full collection the heap grows by a tenth
 * between full collections, and the young generation keeps its size. With V8's defaults, 100 changes per second took 40 MB more.
 */
export function endStartOfV8(): void {
  setFlagsFromString('--heap-growing-percent=10')
  setFlagsFromString('--semi-space-growth-factor=1')
}
