// Frontends that move from the sets of all frontends to chains of their own, or back.
import type { Clock } from '../../../clock.js'
import type { FrontendEntry } from './entries.js'
import { type FrontendState, frontendFlags, hasOwnChain, isFlat } from './frontend-state.js'

/** A packet may be on its way through the former form for so long. */
const overlapMs = 1000

const ownFlags = frontendFlags.ownEndpoints | frontendFlags.ownShortCircuit

/**
 * A frontend moves in two transactions: the first leads packets to the new form and keeps the former one, which the second removes. So
 * no packet meets a state with neither.
 */
export class FormMoves {
  readonly #clock: Pick<Clock, 'now'>
  /** Frontends in both forms, and the time at which the former one goes. */
  readonly #dueMs = new Map<FrontendEntry, number>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** `target`, or a state on the way there. */
  stepTo(target: FrontendState, entry: FrontendEntry): FrontendState {
    const { acknowledged } = entry
    const isMoving =
      (hasOwnChain(target) && isFlat(acknowledged)) || (isFlat(target) && hasOwnChain(acknowledged))
    const dueMs = this.#dueMs.get(entry) ?? Infinity
    if (!isMoving || dueMs <= this.#clock.now()) return target
    return withFormer(target, acknowledged)
  }

  /** The kernel took a transaction: the entry has its state. */
  confirm(entry: FrontendEntry): void {
    const { acknowledged } = entry
    if (!hasOwnChain(acknowledged) || !isFlat(acknowledged)) this.#dueMs.delete(entry)
    else if (!this.#dueMs.has(entry)) this.#dueMs.set(entry, this.#clock.now() + overlapMs)
  }

  /** The frontends whose former forms go now. Those that a former run left stay in both forms until all objects are known. */
  due(): readonly FrontendEntry[] {
    const nowMs = this.#clock.now()
    return [...this.#dueMs].flatMap(([entry, dueMs]) => (dueMs <= nowMs && !entry.isLeftover ? [entry] : []))
  }

  /** Milliseconds until one is due; undefined: none moves. */
  nextInMs(): number | undefined {
    // In the order in which they were entered: the first is due first.
    for (const [entry, dueMs] of this.#dueMs)
      if (!entry.isLeftover) return Math.max(0, dueMs - this.#clock.now())
    return undefined
  }
}

/** The new form leads the packets; the former one has what packets behind its first rule need. */
function withFormer(target: FrontendState, former: FrontendState): FrontendState {
  if (hasOwnChain(target)) {
    const { endpoints, shortCircuit, count, shortCircuitCount, bucket, shortCircuitBucket } = former
    return { ...target, endpoints, shortCircuit, count, shortCircuitCount, bucket, shortCircuitBucket }
  }
  const { chain, shortCircuitChain, flags } = former
  return { ...target, chain, shortCircuitChain, flags: target.flags | (flags & ownFlags) }
}
