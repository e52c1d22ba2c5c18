import { setFlagsFromString } from 'node:v8'

const longestStartMs = 60_000

/**
 * Tunes V8 for the start, which creates all objects on a node's few cores (docs/benchmarks.md has the savings). Call it when all
 * modules are loaded: Node compiles its own later modules without its cache.
 */
export function prepareV8(): void {
  // Inline up to 100 bytes of bytecode, not 920: V8's compiler competes with the start for CPU time.
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=100')
  // The young generation gets its final size at its first growth: objects of a start stay, so that collections free nothing.
  setFlagsFromString('--semi-space-growth-factor=16')
  // Collect the young generation only when it is full.
  setFlagsFromString('--no-minor-gc-task')
  // Do not scan the old generation again until it has grown to six times its size.
  setFlagsFromString('--heap-growing-percent=500')
  // Objects of a start stay; later objects do not. Without this V8 would move later ones to the old generation too, where they stay
  // until a full collection, with everything that they refer to.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // A start that takes too long ends too.
  setTimeout(endStartOfV8, longestStartMs).unref()
}

/**
 * Ends the tuning of `prepareV8`; idempotent. From the next full collection on the heap grows by a tenth between two of them, and the
 * young generation keeps its size. With V8's defaults, 100 changes a second used 40 MB more for garbage.
 */
export function endStartOfV8(): void {
  setFlagsFromString('--heap-growing-percent=10')
  setFlagsFromString('--semi-space-growth-factor=1')
}
