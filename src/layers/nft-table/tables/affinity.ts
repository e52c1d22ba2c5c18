// Session affinity that leads to endpoints which are gone. Rules of the kernel write the elements of these maps.
import { isNotFound } from '../../../errors.js'
import type { Clock } from '../../../clock.js'
import {
  NfElements,
  type NfOp,
  type NfOutcome,
  type Nftables,
  type NfTransaction,
} from '../../../kernel/index.js'
import { setsOf } from './frontend-elements.js'
import { type FrontendState, splitEndpoints } from './frontend-state.js'
import { type FrontendId, isUdp, nodePortIdLength, packBytes, type PackedBytes } from './packed.js'
import type { TableContent } from './content.js'

/**
 * Times of the searches after a change. A client whose first packet left before the change may be recorded after it, as often as
 * the client repeats that packet: two minutes for TCP (tcp_syn_retries).
 */
const searchesMs = [0, 1000, 10_000, 130_000] as const

/**
 * A search reads the whole map, and the changes of the family wait for it. So after a search, there is none for this many times its
 * duration.
 */
const restFactor = 10

/** Readings in one search, when elements expire between the reading and their deletion. */
const mostAttempts = 3

/** A change by which clients of a frontend may have to go. */
interface Loss {
  readonly lossMs: number
  /** Time of the next search. */
  readonly dueMs: number
}

/** Whether clients of the frontend may be recorded with an endpoint that `target` does not have, or for a longer time than its own. */
export function losesAffinity(before: FrontendState, target: FrontendState, stride: number): boolean {
  if (before.affinitySeconds === 0) return false
  if (target.affinitySeconds < before.affinitySeconds) return true
  if (before.endpoints === target.endpoints && before.shortCircuit === target.shortCircuit) return false
  const kept = endpointsOf(target, stride)
  return [...endpointsOf(before, stride)].some((endpoint) => !kept.has(endpoint))
}

function endpointsOf({ endpoints, shortCircuit }: FrontendState, stride: number): ReadonlySet<PackedBytes> {
  return new Set([...splitEndpoints(endpoints, stride), ...splitEndpoints(shortCircuit, stride)])
}

/** The clients of a frontend that stay: those of these endpoints with no more time left than a new client gets. */
interface Kept {
  readonly endpoints: ReadonlySet<PackedBytes>
  readonly mostMs: number
}

function keptBy(state: FrontendState | undefined, stride: number): Kept {
  if (state === undefined || state.affinitySeconds === 0) return { endpoints: new Set(), mostMs: 0 }
  return { endpoints: endpointsOf(state, stride), mostMs: state.affinitySeconds * 1000 }
}

type Send = (transaction: NfTransaction) => Promise<NfOutcome>

export interface AffinityCleanerOptions {
  readonly nftables: Nftables
  /** Sends a transaction of the table. */
  readonly send: Send
  readonly clock: Clock
  readonly content: TableContent
}

/** Deletes affinity to endpoints that a frontend lost, and affinity of a longer time than it has now, in searches after the change. */
export class AffinityCleaner {
  readonly #nftables: Nftables
  readonly #send: Send
  readonly #clock: Clock
  readonly #content: TableContent
  readonly #losses = new Map<FrontendId, Loss>()
  #restsUntilMs = 0
  #hasDeletedUdp = false

  constructor({ nftables, send, clock, content }: AffinityCleanerOptions) {
    this.#nftables = nftables
    this.#send = send
    this.#clock = clock
    this.#content = content
  }

  /** The kernel took a change by which these frontends lost endpoints, or a part of their affinity time. */
  note(ids: Iterable<FrontendId>): void {
    const lossMs = this.#clock.now()
    for (const id of ids) this.#losses.set(id, { lossMs, dueMs: lossMs })
  }

  /** Milliseconds until a search is due; undefined: none is. */
  nextInMs(): number | undefined {
    if (this.#losses.size === 0) return undefined
    let next = Infinity
    for (const { dueMs } of this.#losses.values()) next = Math.min(next, dueMs)
    return Math.max(0, Math.max(next, this.#restsUntilMs) - this.#clock.now())
  }

  /** True: UDP clients were deleted since the last call. Flows that began before the deletion may lead to their former endpoints. */
  takeDeletedUdp(): boolean {
    const hasDeletedUdp = this.#hasDeletedUdp
    this.#hasDeletedUdp = false
    return hasDeletedUdp
  }

  /** One search for all frontends that wait. Throws KernelError. */
  async search(): Promise<void> {
    const startMs = this.#clock.now()
    try {
      await this.#clean()
    } finally {
      const nowMs = this.#clock.now()
      this.#restsUntilMs = nowMs + restFactor * (nowMs - startMs)
    }
    for (const [id, { lossMs, dueMs }] of this.#losses) {
      if (dueMs > startMs) continue
      const delayMs = searchesMs.find((each) => lossMs + each > startMs)
      if (delayMs === undefined) this.#losses.delete(id)
      else this.#losses.set(id, { lossMs, dueMs: lossMs + delayMs })
    }
  }

  async #clean(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const stale = await this.#readStale()
      if (stale.length === 0) return
      const ops = stale.map((elements): NfOp => ({ op: 'delete-elements', elements }))
      const { state, failures } = await this.#send(ops)
      const [failure] = failures
      if (state === 'applied' || failure === undefined) {
        this.#hasDeletedUdp ||= stale.some((elements) => this.#idsOf(elements).some(isUdp))
        return
      }
      // Elements expired since the reading.
      if (!isNotFound(failure.error) || attempt === mostAttempts) throw failure.error
    }
  }

  /** The elements to delete, by map. Throws KernelError. */
  async #readStale(): Promise<readonly NfElements[]> {
    const { schema, structure } = this.#content
    const stale: NfElements[] = []
    for (const isNodePort of [false, true]) {
      const isConcerned = [...this.#losses.keys()].some(
        (id) => (id.length === nodePortIdLength) === isNodePort,
      )
      const set = setsOf(schema, isNodePort).sessionAffinity
      if (!isConcerned || !structure.hasSet(set)) continue
      const elements = this.#stale(await this.#nftables.elements(set))
      if (elements.length > 0) stale.push(elements)
    }
    return stale
  }

  #stale(recorded: NfElements): NfElements {
    const { frontends, packer } = this.#content
    const keptOf = new Map<FrontendId, Kept>()
    for (const id of this.#losses.keys())
      keptOf.set(id, keptBy(frontends.get(id)?.acknowledged, packer.endpointBytes))
    const stale = new NfElements(recorded.set)
    for (const [index, id] of this.#idsOf(recorded).entries()) {
      const kept = keptOf.get(id)
      if (kept === undefined) continue
      const data = recorded.data(index)
      if (kept.endpoints.has(packBytes(data)) && recorded.expirationMs(index) <= kept.mostMs) continue
      stale.add(recorded.key(index), { data })
    }
    return stale
  }

  /** The frontend of each element. */
  #idsOf(recorded: NfElements): readonly FrontendId[] {
    const { addressBytes } = this.#content.packer
    return Array.from({ length: recorded.length }, (_, index) =>
      packBytes(recorded.key(index).subarray(addressBytes)),
    )
  }
}
