// Session affinity that leads to endpoints which are gone. Rules of the kernel write the elements of these maps.
import { isNotFound } from '../../../errors.js'
import type { Clock } from '../../../clock.js'
import { NfElements, type NfOp, type Nftables } from '../../../kernel/index.js'
import { setsOf } from './frontend-elements.js'
import { type FrontendState, splitPacked } from './frontend-state.js'
import { type FrontendId, nodePortIdLength, packBytes, type PackedBytes } from './packed.js'
import type { TableState } from './state.js'
import type { TableSender } from './table-sender.js'

/**
 * Times of the searches after a change. A client whose first packet left before the change may be recorded after it, as often as
 * the client repeats that packet: two minutes for TCP (tcp_syn_retries).
 */
const searchesMs = [0, 1000, 10_000, 130_000] as const

/** Searches in one write, when elements expire between the search and their deletion. */
const mostAttempts = 3

interface Search {
  readonly dueMs: number
  readonly startMs: number
  readonly step: number
}

/** Frontends, each with the state that it gets; undefined: none. */
export type AffinityTargets = ReadonlyMap<FrontendId, FrontendState | undefined>

/** Whether clients of the frontend may be recorded with an endpoint that `target` does not have. */
export function losesAffinity(before: FrontendState, target: FrontendState, stride: number): boolean {
  if (before.affinitySeconds === 0) return false
  if (target.affinitySeconds === 0) return true
  if (before.endpoints === target.endpoints && before.shortCircuit === target.shortCircuit) return false
  const kept = endpointsOf(target, stride)
  return [...endpointsOf(before, stride)].some((endpoint) => !kept.has(endpoint))
}

function endpointsOf({ endpoints, shortCircuit }: FrontendState, stride: number): ReadonlySet<PackedBytes> {
  return new Set([...splitPacked(endpoints, stride), ...splitPacked(shortCircuit, stride)])
}

export interface AffinityCleanerOptions {
  readonly nftables: Nftables
  readonly sender: TableSender
  readonly clock: Clock
  readonly state: TableState
}

/** Deletes affinity to endpoints that a frontend lost: with the change, and in some searches after it. */
export class AffinityCleaner {
  readonly #nftables: Nftables
  readonly #sender: TableSender
  readonly #clock: Clock
  readonly #state: TableState
  readonly #searches = new Map<FrontendId, Search>()

  constructor({ nftables, sender, clock, state }: AffinityCleanerOptions) {
    this.#nftables = nftables
    this.#sender = sender
    this.#clock = clock
    this.#state = state
  }

  /** The kernel took a change by which these frontends lost endpoints. */
  note(ids: Iterable<FrontendId>): void {
    const startMs = this.#clock.now()
    for (const id of ids) this.#searches.set(id, { startMs, dueMs: startMs, step: 0 })
  }

  /** Milliseconds until a search is due; undefined: none is. */
  nextInMs(): number | undefined {
    if (this.#searches.size === 0) return undefined
    let next = Infinity
    for (const { dueMs } of this.#searches.values()) next = Math.min(next, dueMs)
    return Math.max(0, next - this.#clock.now())
  }

  /** Deletions of the elements of these frontends that lead to no endpoint of the target. Throws KernelError. */
  async plan(targets: AffinityTargets): Promise<readonly Extract<NfOp, { elements: NfElements }>[]> {
    const { schema } = this.#state.ledger
    const ops: Extract<NfOp, { elements: NfElements }>[] = []
    for (const isNodePort of [false, true]) {
      const isConcerned = [...targets.keys()].some((id) => (id.length === nodePortIdLength) === isNodePort)
      const set = setsOf(schema, isNodePort).sessionAffinity
      if (!isConcerned || !this.#state.structure.hasSet(set)) continue
      const elements = this.#stale(await this.#nftables.elements(set), targets)
      if (elements.length > 0) ops.push({ op: 'delete-elements', elements })
    }
    return ops
  }

  /** The searches that are due. Throws KernelError. */
  async search(): Promise<void> {
    const nowMs = this.#clock.now()
    const due = [...this.#searches].filter(([, { dueMs }]) => dueMs <= nowMs)
    if (due.length === 0) return
    const { frontends } = this.#state.ledger
    const targets = new Map(due.map(([id]) => [id, frontends.get(id)?.acknowledged]))
    await this.#clean(targets)
    for (const [id, { startMs, step }] of due) {
      const delayMs = searchesMs[step + 1]
      if (delayMs === undefined) this.#searches.delete(id)
      else this.#searches.set(id, { startMs, dueMs: startMs + delayMs, step: step + 1 })
    }
  }

  async #clean(targets: AffinityTargets): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const ops = await this.plan(targets)
      if (ops.length === 0) return
      const { state, failures } = await this.#sender.apply(ops)
      const [failure] = failures
      if (state === 'applied' || failure === undefined) return
      // Elements expired since the search.
      if (!isNotFound(failure.error) || attempt === mostAttempts) throw failure.error
    }
  }

  #stale(recorded: NfElements, targets: AffinityTargets): NfElements {
    const { addressBytes, endpointBytes } = this.#state.ledger.packer
    const kept = new Map<FrontendId, ReadonlySet<PackedBytes>>()
    const stale = new NfElements(recorded.set)
    for (let index = 0; index < recorded.length; index++) {
      const key = recorded.key(index)
      const id = packBytes(key.subarray(addressBytes))
      if (!targets.has(id)) continue
      let endpoints = kept.get(id)
      if (endpoints === undefined) {
        const target = targets.get(id)
        const isKept = target !== undefined && target.affinitySeconds > 0
        kept.set(id, (endpoints = isKept ? endpointsOf(target, endpointBytes) : new Set()))
      }
      const data = recorded.data(index)
      if (!endpoints.has(packBytes(data))) stale.add(key, { data })
    }
    return stale
  }
}
