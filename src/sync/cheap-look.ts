// A cheap look at the kernel between two reconciles, since nobody tells what others change.
import type { IpFamily } from '../address.js'
import { KernelError } from '../errors.js'
import type { Ipvs, KernelLook } from '../kernel/index.js'
import type { Ledger } from '../ledger/index.js'
import type { Clock } from './clock.js'
import type { IpvsPolicies } from './ipvs-policies.js'

export interface CheapLookOptions {
  readonly family: IpFamily
  readonly look: KernelLook
  readonly ipvs: Pick<Ipvs, 'info' | 'read'>
  readonly clock: Clock
  readonly ledger: Pick<Ledger, 'acknowledgedCount' | 'expectedCount' | 'takeSample' | 'isAsAcknowledged'>
  readonly policies: Pick<IpvsPolicies, 'findsOtherRules' | 'findsOtherSets'>
}

const periodMs = 1000

/** Virtual servers that are compared at a time: 8 system calls for IPv4, 12 for IPv6, whatever there is. */
const sampleSize = 4

/**
 * Once a second, what the kernel counts: entries of the tables and of the sets, virtual servers (IPv4). Bytes that are as they
 * were found in order say at once that nothing was added or removed. And a few virtual servers of ours byte for byte, which are all
 * of them in turn. So a table that was flushed or grew is noticed within a second, a change within a small one too; one
 * somewhere in a large one by the reconcile at the latest.
 */
export class CheapLook {
  readonly #options: CheapLookOptions
  #dueMs: number
  /** The look that was found in order. */
  #seen: Buffer | undefined

  constructor(options: CheapLookOptions) {
    this.#options = options
    this.#dueMs = nextDueMs(options.clock)
  }

  /** Milliseconds until the next look. */
  nextInMs(): number {
    return Math.max(0, this.#dueMs - this.#options.clock.now())
  }

  /** When it is time: whether the kernel holds something else than what it acknowledged. Rules that differ are owed then. */
  async findsDrift(): Promise<boolean> {
    const { clock, policies } = this.#options
    if (clock.now() < this.#dueMs) return false
    this.#dueMs = nextDueMs(clock)
    try {
      if (await this.#isCountWrong()) return true
      if (await policies.findsOtherSets()) return true
      return await this.#isSampleWrong()
    } catch (error) {
      // Whoever needs the kernel next says what is wrong with it.
      if (error instanceof KernelError) return false
      throw error
    }
  }

  async #isCountWrong(): Promise<boolean> {
    const { family, look, ipvs, ledger, policies } = this.#options
    const taken = await look.take()
    if (this.#seen?.equals(taken) === true) return false
    this.#seen = undefined
    const areRulesOwed = await policies.findsOtherRules()
    if (family === 'ipv4' && ledger.acknowledgedCount > 0)
      if ((await ipvs.info()).ipv4VirtualServers !== ledger.expectedCount) return true
    if (!areRulesOwed) this.#seen = Buffer.from(taken)
    return false
  }

  async #isSampleWrong(): Promise<boolean> {
    const { ipvs, ledger } = this.#options
    const sample = ledger.takeSample(sampleSize)
    if (sample.length === 0) return false
    return !ledger.isAsAcknowledged(sample, await ipvs.read(sample.map(({ key }) => key)))
  }
}

/** On the second: both families look at the same time, and an idle machine wakes up once for them. */
function nextDueMs(clock: Clock): number {
  return (Math.floor(clock.now() / periodMs) + 1) * periodMs
}
