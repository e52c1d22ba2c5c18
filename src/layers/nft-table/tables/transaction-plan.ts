// A transaction that is being planned: elements, and the states that its objects have after it.
import { ElementBatch } from './element-batch.js'
import { losesAffinity } from './affinity.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import type { FrontendPlanner } from './frontend-elements.js'
import { absent, arrange, type FrontendState, isSameState } from './frontend-state.js'
import type { HeldSet, NftLedger } from './ledger.js'
import type { FrontendId } from './packed.js'

/** The state of a frontend to write. Endpoints that the kernel has keep their index. */
export function targetOf({ acknowledged, desired }: FrontendEntry, stride: number): FrontendState {
  if (acknowledged === desired) return desired
  const endpoints = arrange(acknowledged.endpoints, desired.endpoints, stride)
  const shortCircuit = arrange(acknowledged.shortCircuit, desired.shortCircuit, stride)
  if (endpoints === desired.endpoints && shortCircuit === desired.shortCircuit) return desired
  return { ...desired, endpoints, shortCircuit }
}

export class TransactionPlan {
  readonly elements = new ElementBatch()
  /** Frontends from which clients with session affinity may have to go. */
  readonly losses = new Set<FrontendId>()
  /** Names of the sets from which elements go that belong to no object. */
  readonly strays: string[] = []
  readonly #ledger: NftLedger
  readonly #planner: FrontendPlanner
  readonly #frontends = new Map<FrontendEntry, FrontendState>()
  readonly #held: { readonly of: HeldSet; readonly entry: HeldEntry; readonly target: boolean }[] = []

  constructor(ledger: NftLedger, planner: FrontendPlanner) {
    this.#ledger = ledger
    this.#planner = planner
  }

  get size(): number {
    return this.elements.size
  }

  /** The transaction leads to a state of the frontend. */
  hasFrontend(entry: FrontendEntry): boolean {
    return this.#frontends.has(entry)
  }

  addFrontend(entry: FrontendEntry, target: FrontendState): void {
    const { acknowledged } = entry
    this.#frontends.set(entry, target)
    if (acknowledged === target) return
    this.#planner.plan(this.elements, entry, target)
    if (losesAffinity(acknowledged, target, this.#ledger.packer.endpointBytes)) this.losses.add(entry.id)
  }

  addHeld(of: HeldSet, entry: HeldEntry): void {
    const { desired: target, acknowledged, id } = entry
    this.#held.push({ of, entry, target })
    if (target && !acknowledged) this.elements.add(of.set, entry, { key: id })
    if (!target && acknowledged) this.elements.remove(of.set, entry, { key: id })
  }

  /** The kernel took the transaction. */
  confirm(): void {
    const { frontends } = this.#ledger
    for (const [entry, target] of this.#frontends) {
      // A frontend without elements is absent, with or without an owner.
      entry.acknowledged = isSameState(target, absent) ? absent : target
      frontends.settle(entry)
    }
    for (const { of, entry, target } of this.#held) {
      entry.acknowledged = target
      of.entries.settle(entry)
    }
  }
}
