// A cheap look at the kernel between two reconciles, since nobody tells what others change.
import type { IpFamily } from '../address.js'
import { KernelError } from '../errors.js'
import type { Ipvs, KernelLook, VirtualServerKey } from '../kernel/index.js'
import type { Entry, Ledger } from '../ledger/index.js'
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

/** Virtual servers of a family that are watched at a time: 2 system calls each for IPv4, 3 for IPv6, whatever there is. */
const sampleSize = 16

/**
 * When the watch saw something that is not as it was, and a second after something was done. How many entries the tables have, and
 * virtual servers (IPv4): bytes that are those that were found in order say at once that nothing was added or removed. Then rules,
 * sets by their numbers of entries, and byte for byte the few virtual servers that are watched, in turn. So what was flushed or
 * grew among tables, sets and IPv4 servers is noticed within a second, and any change within a small table; one somewhere in a large
 * one by the reconcile at the latest.
 */
export class CheapLook {
  readonly #options: CheapLookOptions
  #dueMs: number
  /** The look that was found in order. */
  #seen: Buffer | undefined
  /** The watch saw something that was not looked at yet. */
  #isNoted = false
  /** What is watched. */
  #sample: readonly Entry[] = []

  constructor(options: CheapLookOptions) {
    this.#options = options
    this.#dueMs = nextDueMs(options.clock)
  }

  /** Milliseconds until the next look; Infinity: the watch has seen nothing. */
  nextInMs(): number {
    return Math.max(0, this.#dueMs - this.#options.clock.now())
  }

  /** It is time to look. */
  get isDue(): boolean {
    return this.nextInMs() === 0
  }

  /**
   * The next virtual servers to watch. What nobody has watched before is looked at once, as it may differ already; the first ones
   * were just programmed.
   */
  takeSample(): readonly VirtualServerKey[] {
    const { clock, ledger } = this.#options
    const former = this.#sample
    this.#sample = ledger.takeSample(sampleSize)
    const isSame =
      former.length === this.#sample.length && former.every((entry, i) => entry === this.#sample[i])
    if (former.length > 0 && !isSame) this.#dueMs = Math.min(this.#dueMs, clock.now())
    return this.#sample.map(({ key }) => key)
  }

  /** The watch saw something. */
  note(): void {
    this.#isNoted = true
    this.#seen = undefined
    this.#dueMs = this.#options.clock.now()
  }

  /** When it is time: whether the kernel holds something else than what it acknowledged. Rules that differ are owed then. */
  async findsDrift(): Promise<boolean> {
    const { clock, policies } = this.#options
    if (clock.now() < this.#dueMs) return false
    this.#dueMs = Infinity
    const isNoted = this.#isNoted
    this.#isNoted = false
    // Together: the thread wakes up once for what they find.
    const found = await Promise.all([
      unlessRefused(async () => await this.#isCountWrong()),
      isNoted && policies.findsOtherSets(),
      unlessRefused(async () => await this.#isSampleWrong()),
    ])
    // Until it was found in order.
    if (this.#seen === undefined) this.#dueMs = nextDueMs(clock)
    return found.includes(true)
  }

  /** Something was done: the same bytes need not mean the same any more. */
  forget(): void {
    this.#seen = undefined
    this.#dueMs = Math.min(this.#dueMs, nextDueMs(this.#options.clock))
  }

  async #isCountWrong(): Promise<boolean> {
    const { family, look, ipvs, ledger, policies } = this.#options
    const taken = await takenOf(look)
    if (taken !== undefined && this.#seen?.equals(taken) === true) return false
    this.#seen = undefined
    const areRulesOwed = await policies.findsOtherRules()
    if (family === 'ipv4' && ledger.acknowledgedCount > 0)
      if ((await ipvs.info()).ipv4VirtualServers !== ledger.expectedCount) return true
    if (!areRulesOwed && taken !== undefined) this.#seen = Buffer.from(taken)
    return false
  }

  async #isSampleWrong(): Promise<boolean> {
    const { ipvs, ledger } = this.#options
    const sample = this.#sample.filter(({ acknowledged, isStale }) => acknowledged !== undefined && !isStale)
    if (sample.length === 0) return false
    return !ledger.isAsAcknowledged(sample, await ipvs.read(sample.map(({ key }) => key)))
  }
}

/** On the second: both families look at the same time, and an idle machine wakes up once for them. */
function nextDueMs(clock: Clock): number {
  return (Math.floor(clock.now() / periodMs) + 1) * periodMs
}

/** undefined: it cannot be had, and what it stands for is asked itself. */
async function takenOf(look: KernelLook): Promise<Uint8Array | undefined> {
  try {
    return await look.take()
  } catch (error) {
    if (error instanceof KernelError) return undefined
    throw error
  }
}

/** False where the kernel cannot be asked: whoever needs it next says what is wrong with it. */
async function unlessRefused(find: () => Promise<boolean>): Promise<boolean> {
  try {
    return await find()
  } catch (error) {
    if (error instanceof KernelError) return false
    throw error
  }
}
