// A cheap look at the kernel between two reconciles: the kernel does not notify of most changes.
import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Ipvs, KernelLook, VirtualServerKey } from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger } from './tables/ledger.js'
import { isAsAcknowledged } from './tables/server-kind.js'
import type { Clock } from '../../clock.js'
import type { IpvsPolicies } from './policies.js'
import { orRefusal } from '../../engine/index.js'
import { UnlockTimes } from '../shared/index.js'

export interface CheapLookOptions {
  readonly family: IpFamily
  readonly look: KernelLook
  readonly ipvs: Pick<Ipvs, 'info' | 'read'>
  readonly clock: Clock
  readonly ledger: Pick<IpvsLedger, 'acknowledgedCount' | 'expectedCount' | 'takeSample'>
  readonly policies: Pick<IpvsPolicies, 'findsOtherRules' | 'findsOtherSets'>
}

const periodMs = 1000

/** Virtual servers of a family that are looked at in one turn: 2 system calls each for IPv4, 3 for IPv6, whatever there is. */
const sampleSize = 16

/**
 * Looks when the watch saw something that is not as it was, a second after something was done, and, without a watch, once a second.
 * How many entries the tables have, and virtual servers (IPv4): bytes that are those that were found in order say at once that
 * nothing was added or removed. Then rules, sets by their numbers of entries, and a few virtual servers byte for byte, in turn. So
 * what was flushed or grew among tables, sets and IPv4 servers is noticed within seconds, and any change within a small table that is
 * at rest; one somewhere in a large one by the reconcile at the latest. Rules are compared byte for byte after another program let
 * go of the lock of the tables.
 */
export class CheapLook {
  readonly #options: CheapLookOptions
  #dueMs: number
  /** The look that was found in order. */
  #seen: Buffer | undefined
  #isWatched = false
  /** What is watched. */
  #sample: readonly Entry[] = []
  /** The next look compares sets. */
  #areSetsDue = false
  /** Virtual servers that the next look compares, and every one after it until then. */
  readonly #serversDue = new Map<Entry, number>()
  /** Of the next comparison of all rules. */
  readonly #unlocks: UnlockTimes

  constructor(options: CheapLookOptions) {
    this.#options = options
    this.#unlocks = new UnlockTimes(options.clock)
    this.#dueMs = nextDueMs(options.clock)
  }

  /** Milliseconds until the next look; Infinity: it waits for the watch. */
  nextInMs(): number {
    return Math.max(0, Math.min(this.#dueMs, this.#unlocks.dueMs) - this.#options.clock.now())
  }

  /** The virtual servers to watch; `isTurn`: others than before, where there are more than a few. */
  takeSample(isTurn: boolean): readonly VirtualServerKey[] {
    const { ledger } = this.#options
    if (isTurn || this.#sample.length < sampleSize) this.#sample = ledger.takeSample(sampleSize)
    return this.#sample.map(({ key }) => key)
  }

  /**
   * The watch begins anew with the sample: what differs already is nothing new to it. So the sample is compared until the watch has
   * looked at it for certain; the first time sets are, too.
   */
  beginWatch(): void {
    const { clock } = this.#options
    const dueMs = clock.now() + 2 * periodMs
    this.#areSetsDue ||= !this.#isWatched
    this.#isWatched = true
    for (const entry of this.#sample) this.#serversDue.set(entry, dueMs)
    this.#dueMs = Math.min(this.#dueMs, dueMs)
  }

  /** The watch saw something. */
  note(): void {
    this.#expectAnything()
    this.#dueMs = this.#options.clock.now()
  }

  /** The watch saw that another program let go of the lock of the tables. */
  noteUnlock(): void {
    this.#unlocks.note()
  }

  /** There is no watch any more. */
  endWatch(): void {
    this.#isWatched = false
    this.#dueMs = Math.min(this.#dueMs, nextDueMs(this.#options.clock))
  }

  /** When it is time: whether the kernel differs from what it acknowledged. Rules that differ are due to be written. */
  async findsDrift(): Promise<boolean> {
    const { clock, ledger, policies } = this.#options
    if (this.nextInMs() > 0) return false
    const startMs = clock.now()
    this.#dueMs = Infinity
    if (!this.#isWatched) {
      this.#sample = ledger.takeSample(sampleSize)
      this.#expectAnything()
    }
    const servers = [...this.#serversDue]
    const areSetsDue = this.#areSetsDue
    this.#serversDue.clear()
    this.#areSetsDue = false
    // Together: the thread wakes up once for what they find.
    const found = await Promise.all([
      orRefusal(async () => await this.#isCountWrong()),
      areSetsDue ? policies.findsOtherSets() : false,
      orRefusal(async () => await this.#areWrong(servers.map(([entry]) => entry))),
    ])
    // The next use of the kernel reports the error; what the watch saw stays due.
    const isRefused = found.some((answer) => answer === undefined || answer instanceof KernelError)
    this.#areSetsDue ||= isRefused && areSetsDue
    for (const [entry, dueMs] of servers) if (isRefused || dueMs > startMs) this.#expect(entry, dueMs)
    // Until all was found in order.
    const isOver = this.#isWatched && this.#seen !== undefined && this.#serversDue.size === 0 && !isRefused
    if (!isOver) this.#dueMs = Math.min(this.#dueMs, nextDueMs(clock))
    return found.includes(true)
  }

  /** Something was done: the same bytes need not mean the same any more. */
  forget(): void {
    this.#seen = undefined
    this.#dueMs = Math.min(this.#dueMs, nextDueMs(this.#options.clock))
  }

  #expectAnything(): void {
    this.#seen = undefined
    this.#areSetsDue = true
    for (const entry of this.#sample) this.#expect(entry, this.#options.clock.now())
  }

  #expect(entry: Entry, untilMs: number): void {
    this.#serversDue.set(entry, Math.max(untilMs, this.#serversDue.get(entry) ?? 0))
  }

  async #isCountWrong(): Promise<boolean> {
    const { family, ipvs, clock, ledger, policies } = this.#options
    const isComparisonDue = this.#unlocks.dueMs <= clock.now()
    const look = await orRefusal(async () => await this.#options.look.take())
    // Where it cannot be had, the kernel is asked for each part.
    const taken = look instanceof KernelError ? undefined : look
    if (!isComparisonDue && taken !== undefined && this.#seen?.equals(taken) === true) return false
    this.#seen = undefined
    const areRulesDue = isComparisonDue ? await this.#compareRules() : await policies.findsOtherRules('cheap')
    if (family === 'ipv4' && ledger.acknowledgedCount > 0)
      if ((await ipvs.info()).ipv4VirtualServers !== ledger.expectedCount) return true
    if (!areRulesDue && taken !== undefined) this.#seen = Buffer.from(taken)
    return false
  }

  /** Whether rules are not what they were left as. */
  async #compareRules(): Promise<boolean> {
    this.#unlocks.begin()
    const areDue = await this.#options.policies.findsOtherRules('full')
    this.#unlocks.end()
    return areDue
  }

  async #areWrong(entries: readonly Entry[]): Promise<boolean> {
    const { ipvs } = this.#options
    const known = entries.filter(({ acknowledged, isStale }) => acknowledged !== undefined && !isStale)
    if (known.length === 0) return false
    return !isAsAcknowledged(known, await ipvs.read(known.map(({ key }) => key)))
  }
}

/** On the second: both families look at the same time, and an idle machine wakes up once for them. */
function nextDueMs(clock: Clock): number {
  return (Math.floor(clock.now() / periodMs) + 1) * periodMs
}
