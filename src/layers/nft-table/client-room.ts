import type { IpFamily } from '../../address.js'
import { logFamily } from '../../engine/index.js'
import type { Nftables, NfSetState } from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import { countWithoutRoom, ownChainName, ownLists } from './compile/own-chains.js'
import { maxClients, schemaOf } from './compile/schema.js'
import type { OwnPortEntry, OwnPorts } from './tables/own-ports.js'

/** Chains whose counters one check reads, where the kernel does not count the elements of sets (before Linux 6.16). */
const chainsPerCheck = 50

export interface ClientRoomOptions {
  readonly family: IpFamily
  readonly nftables: Pick<Nftables, 'rules' | 'sets'>
  readonly own: OwnPorts
  readonly warnings: StateReporter
  readonly metrics: Pick<FamilyMetrics, 'fullClientSets'>
}

/** Reports service ports whose set of clients is full: their new clients have no session affinity. */
export class ClientRoom {
  readonly #options: ClientRoomOptions
  /** Keys of the reported problems. */
  readonly #full = new Map<OwnPortEntry, string>()
  /** Connections without room that were counted before. */
  readonly #counts = new Map<OwnPortEntry, number>()
  #turn = 0

  constructor(options: ClientRoomOptions) {
    this.#options = options
  }

  /** Looks once. Throws KernelError. */
  async check(): Promise<void> {
    const { own, nftables, family, metrics } = this.#options
    const entries = [...own.entries.values()].filter(
      ({ wanted, acknowledged }) => wanted !== undefined && acknowledged.hasClients,
    )
    for (const entry of new Set([...this.#full.keys(), ...this.#counts.keys()]))
      if (entry.wanted === undefined) this.#forget(entry)
    if (entries.length > 0) {
      const { table, clients } = schemaOf(family)
      const sets = new Map((await nftables.sets(table)).map((set) => [set.set, set]))
      const uncounted = entries.filter((entry) => !this.#noteCount(entry, sets.get(clients(entry.id).set)))
      await this.#readCounters(uncounted)
    }
    metrics.fullClientSets.set(this.#full.size)
  }

  /** False: the kernel does not count elements. */
  #noteCount(entry: OwnPortEntry, set: NfSetState | undefined): boolean {
    const { count } = set?.attributes ?? {}
    if (set !== undefined && count === undefined) return false
    this.#note(entry, (count ?? 0) >= maxClients)
    return true
  }

  async #readCounters(entries: readonly OwnPortEntry[]): Promise<void> {
    const { nftables, family } = this.#options
    const { table } = schemaOf(family)
    for (let left = Math.min(chainsPerCheck, entries.length); left > 0; left--) {
      const entry = entries[this.#turn++ % entries.length]
      if (entry === undefined) continue
      let count = 0
      for (const list of ownLists) {
        if (entry.acknowledged[list] === 'absent') continue
        count += countWithoutRoom(await nftables.rules({ ...table, chain: ownChainName(entry.id, list) }))
      }
      // Packets that a former run counted make no difference. A rewritten chain begins with 0.
      const before = this.#counts.get(entry) ?? count
      this.#note(entry, count > before || (count < before && count > 0))
      this.#counts.set(entry, count)
    }
  }

  #note(entry: OwnPortEntry, isFull: boolean): void {
    const { warnings, family } = this.#options
    if (!isFull && !this.#full.has(entry)) return
    const service = entry.wanted?.holder ?? ''
    const problem = `clients ${family} ${service}`
    const text =
      `Service port ${service}: its set of ${maxClients} clients with session affinity is full; ` +
      'new clients have no affinity until others expire'
    warnings.report(problem, isFull ? { text, fields: { service, ipFamily: logFamily(family) } } : undefined)
    if (isFull) this.#full.set(entry, problem)
    else this.#full.delete(entry)
  }

  #forget(entry: OwnPortEntry): void {
    const problem = this.#full.get(entry)
    if (problem !== undefined) this.#options.warnings.forget(problem)
    this.#full.delete(entry)
    this.#counts.delete(entry)
  }
}
