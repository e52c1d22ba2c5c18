// Packets that rules of iptables mode met. kube-proxy has the kernel count them in objects of nfacct; ours are the rules' own counters.
import { KernelError } from '../../errors.js'
import { orRefusal } from '../../engine/index.js'
import type { Xtables } from '../../kernel/index.js'
import type { PacketTotals } from '../../metrics/index.js'
import type { CountedRule, CountedRules } from './compile/skeleton.js'

/** Of one family. A rule that is made anew counts from 0 in the kernel, not here. */
export class PacketCounts {
  readonly #filter: Pick<Xtables, 'packets'>
  readonly #invalidDropped = new GrowingCount()
  readonly #localhostAccepted = new GrowingCount()

  constructor(filter: Pick<Xtables, 'packets'>) {
    this.#filter = filter
  }

  /** Reads table filter once for all rules that there are; what cannot be read is as it was. */
  async read({ invalidDropped, localhostAccepted }: CountedRules): Promise<PacketTotals> {
    const counts = await this.#packets([invalidDropped, localhostAccepted])
    this.#invalidDropped.note(counts(invalidDropped))
    this.#localhostAccepted.note(counts(localhostAccepted))
    return { invalidDropped: this.#invalidDropped.total, localhostAccepted: this.#localhostAccepted.total }
  }

  /** Resolves with a rule's packets; undefined: there is no such rule, or it could not be read. */
  async #packets(
    rules: readonly (CountedRule | undefined)[],
  ): Promise<(rule: CountedRule | undefined) => number | undefined> {
    const chains = [...new Set(rules.flatMap((rule) => rule?.chain ?? []))]
    const counts = chains.length === 0 ? [] : await this.#read(chains)
    return (rule) => rule && counts[chains.indexOf(rule.chain)]?.at(rule.place)
  }

  async #read(chains: readonly string[]): ReturnType<Xtables['packets']> {
    const packets = await orRefusal(async () => await this.#filter.packets(chains))
    return packets instanceof KernelError ? [] : packets
  }
}

class GrowingCount {
  #last = 0
  total = 0

  /** undefined: there is no such rule now. */
  note(reading: number | undefined): void {
    if (reading === undefined) return
    this.total += reading < this.#last ? reading : reading - this.#last
    this.#last = reading
  }
}
