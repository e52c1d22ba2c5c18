// Packets that rules of iptables mode met. kube-proxy has the kernel count them in objects of nfacct; ours are the rules' own counters.
import { KernelError } from '../errors.js'
import type { Xtables } from '../kernel/index.js'
import type { PacketTotals } from '../metrics/index.js'
import type { CountedRule, CountedRules } from '../modes/iptables/index.js'

/** Of one family. A rule that is made anew counts from 0 in the kernel, not here. */
export class PacketCounts {
  readonly #filter: Pick<Xtables, 'packets'>
  readonly #invalidDropped = new GrowingCount()
  readonly #localhostAccepted = new GrowingCount()

  constructor(filter: Pick<Xtables, 'packets'>) {
    this.#filter = filter
  }

  /** Reads table filter for each rule that there is; what cannot be read is as it was. */
  async read({ invalidDropped, localhostAccepted }: CountedRules): Promise<PacketTotals> {
    this.#invalidDropped.note(await this.#packets(invalidDropped))
    this.#localhostAccepted.note(await this.#packets(localhostAccepted))
    return { invalidDropped: this.#invalidDropped.total, localhostAccepted: this.#localhostAccepted.total }
  }

  async #packets(rule: CountedRule | undefined): Promise<number | undefined> {
    if (rule === undefined) return undefined
    try {
      return (await this.#filter.packets(rule.chain)).at(rule.place)
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      return undefined
    }
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
