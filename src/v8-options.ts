import { setFlagsFromString } from 'node:v8'

/**
 * Makes V8 inline less into the code that it optimizes: functions up to 100 bytes of bytecode in all, not 920. A start runs
 * everything once, 10,000 times, and on a node's few cores the threads of V8's compiler take time from the start itself:
 * docs/benchmarks.md has what it saves. To be called when all modules are loaded: those of Node that come later are
 * compiled without its cache.
 */
export function limitInlining(): void {
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=100')
}
