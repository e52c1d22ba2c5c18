import { setFlagsFromString } from 'node:v8'
import type { Clock } from '../clock.js'

const longestStartMs = 60_000

/**
 * Sets V8 for a start, which makes and runs everything once, 10,000 times, on a node's few cores (docs/benchmarks.md has what
 * it saves). To be called when all modules are loaded: those of Node that come later are compiled without its cache.
 */
export function prepareV8(clock: Pick<Clock, 'every'>): void {
  // Functions up to 100 bytes of bytecode in all are inlined, not 920: V8's compiler takes its time from the start itself.
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=100')
  // The young generation has its final size with the first growth: what is made at a start stays, so that collecting it is for nothing.
  setFlagsFromString('--semi-space-growth-factor=16')
  // And is collected when it is full, not before.
  setFlagsFromString('--no-minor-gc-task')
  // What stays is not looked through again while it grows to six times what it was.
  setFlagsFromString('--heap-growing-percent=500')
  // What a start makes stays; what is made afterwards does not, and must not be put among the old for what the start was like: it would
  // stay there until a full collection, with all that it refers to.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // A start that something holds up is over too.
  const cancel = clock.every(longestStartMs, () => {
    cancel()
    endStartOfV8()
  })
}

/**
 * Ends what `prepareV8` set for the start only; idempotent: from the next full collection on the heap grows by a tenth between two of
 * them, and the young generation keeps its size. Left to V8, 100 changes a second took 40 MB more for their garbage.
 */
export function endStartOfV8(): void {
  setFlagsFromString('--heap-growing-percent=10')
  setFlagsFromString('--semi-space-growth-factor=1')
}
