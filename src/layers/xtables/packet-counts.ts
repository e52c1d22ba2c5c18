// Packets that matched rules of iptables mode. kube-proxy has the kernel count them in nfacct objects; Viaduct reads the counters
// of the rules.
import { KernelError, orRefusal } from '../../errors.js'
import type { Xtables } from '../../kernel/index.js'
import type { PacketTotals } from '../../metrics/index.js'

/** A rule of table filter, by its chain and its place; a negative place counts from the end. */
export interface CountedRule {
  readonly chain: string
  readonly place: number
}

/** Rules whose packets a metric counts; absent: the rule does not exist. */
export interface CountedRules {
  /** Drops packets that conntrack finds invalid. */
  readonly invalidDropped?: CountedRule
  /** Matches new connections from a loopback address to a node port. */
  readonly localhostAccepted?: CountedRule
}

/** Packet counts of one family. A rule that is made again counts from 0 in the kernel, but not here. */
export class PacketCounts {
  readonly #filter: Pick<Xtables, 'packets'>
  readonly #invalidDropped = new GrowingCount()
  readonly #localhostAccepted = new GrowingCount()

  constructor(filter: Pick<Xtables, 'packets'>) {
    this.#filter = filter
  }

  /** Reads table filter once for all existing rules. A rule that could not be read keeps its count. */
  async read({ invalidDropped, localhostAccepted }: CountedRules): Promise<PacketTotals> {
    const counts = await this.#packets([invalidDropped, localhostAccepted])
    this.#invalidDropped.note(counts(invalidDropped))
    this.#localhostAccepted.note(counts(localhostAccepted))
    return { invalidDropped: this.#invalidDropped.total, localhostAccepted: this.#localhostAccepted.total }
  }

  /** Resolves with a rule's packets; undefined: the rule does not exist, or could not be read. */
  async #packets(
    rules: readonly (CountedRule | undefined)[],
  ): Promise<(rule: CountedRule | undefined) => number | undefined> {
    const chains = [...new Set(rules.flatMap((rule) => rule?.chain ?? []))]
    if (chains.length === 0) return () => undefined
    const packets = await orRefusal(async () => await this.#filter.packets(chains))
    if (packets instanceof KernelError) return () => undefined
    return (rule) => rule && packets.at(chains.indexOf(rule.chain), rule.place)
  }
}

class GrowingCount {
  #last = 0
  total = 0

  /** undefined: the rule does not exist now. */
  note(reading: number | undefined): void {
    if (reading === undefined) return
    this.total += reading < this.#last ? reading : reading - this.#last
    this.#last = reading
  }
}
