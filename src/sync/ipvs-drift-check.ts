// A cheap look at the kernel between two reconciles, since IPVS tells nobody what others change.
import type { IpFamily } from '../address.js'
import { KernelError } from '../errors.js'
import type { Ipvs } from '../kernel/index.js'
import type { Ledger } from '../ledger/index.js'
import type { Clock } from './clock.js'

export interface IpvsDriftCheckOptions {
  readonly family: IpFamily
  readonly ipvs: Pick<Ipvs, 'info' | 'read'>
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'acknowledgedCount' | 'expectedCount' | 'takeSample' | 'isAsAcknowledged'>
}

const periodMs = 1000

/** Virtual servers that are compared at a time: 20 system calls for IPv4, 30 for IPv6, whatever there is. */
const sampleSize = 10

/**
 * Once a second: the number of virtual servers (IPv4; the kernel counts no others), and a few of ours byte for byte, which are
 * all of them in turn. A table that was flushed or grew is noticed at once, a change within a small table too; one
 * somewhere in a large one by the reconcile at the latest.
 */
export class IpvsDriftCheck {
  readonly #options: IpvsDriftCheckOptions
  #dueMs: number

  constructor(options: IpvsDriftCheckOptions) {
    this.#options = options
    this.#dueMs = options.clock.now() + periodMs
  }

  /** Milliseconds until the next look; undefined: there is nothing of ours to look at. */
  nextInMs(): number | undefined {
    const { clock, ledger } = this.#options
    return ledger.acknowledgedCount === 0 ? undefined : Math.max(0, this.#dueMs - clock.now())
  }

  /** When it is time: whether the kernel holds something else than what it acknowledged. */
  async findsDrift(): Promise<boolean> {
    const { clock, ledger } = this.#options
    if (ledger.acknowledgedCount === 0 || clock.now() < this.#dueMs) return false
    this.#dueMs = clock.now() + periodMs
    try {
      return (await this.#isCountWrong()) || (await this.#isSampleWrong())
    } catch (error) {
      // Whoever needs the kernel next says what is wrong with it.
      if (error instanceof KernelError) return false
      throw error
    }
  }

  async #isCountWrong(): Promise<boolean> {
    const { family, ipvs, ledger } = this.#options
    return family === 'ipv4' && (await ipvs.info()).ipv4VirtualServers !== ledger.expectedCount
  }

  async #isSampleWrong(): Promise<boolean> {
    const { ipvs, ledger } = this.#options
    const sample = ledger.takeSample(sampleSize)
    if (sample.length === 0) return false
    return !ledger.isAsAcknowledged(sample, await ipvs.read(sample.map(({ key }) => key)))
  }
}
