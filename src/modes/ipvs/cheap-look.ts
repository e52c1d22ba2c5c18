// A cheap look at the kernel between two reconciles: the kernel sends no notification of most changes.
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Ipvs, KernelLook, VirtualServerKey } from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger } from './tables/ledger.js'
import { isAsAcknowledged } from './tables/server-kind.js'
import type { Clock } from '../../clock.js'
import type { IpvsPolicies } from './policies.js'
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

/** Virtual servers of a family in one turn: 2 system calls each for IPv4, 3 for IPv6, regardless of their real servers. */
const sampleSize = 16

/**
 * Looks when the watch saw a difference, a second after a change of ours, and, without a watch, once a second. It first compares
 * the numbers of table entries and of virtual servers (IPv4): bytes equal to the last good ones show at once that nothing was added
 * or removed. Then it compares rules, sets by their numbers of entries, and a few virtual servers byte for byte, in turn. So it
 * notices within seconds when tables, sets or IPv4 servers were flushed or grew, and any change in a small table at rest. The next
 * reconcile finds a change inside a large table. Rules are compared byte for byte after another program released the lock of the
 * tables.
 */
export class CheapLook {
  readonly #options: CheapLookOptions
  #dueMs: number
  /** The last look that found no difference. */
  #seen: Buffer | undefined
  #isWatched = false
  /** The virtual servers that are watched. */
  #sample: readonly Entry[] = []
  /** The next look compares sets. */
  #areSetsDue = false
  /** Virtual servers that each look compares until the given time. */
  readonly #serversDue = new Map<Entry, number>()
  /** The times of comparisons of all rules. */
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

  /** The virtual servers to watch; `isTurn`: choose others than before if there are more than a few. */
  takeSample(isTurn: boolean): readonly VirtualServerKey[] {
    const { ledger } = this.#options
    if (isTurn || this.#sample.length < sampleSize) this.#sample = ledger.takeSample(sampleSize)
    return this.#sample.map(({ key }) => key)
  }

  /**
   * The watch begins again with the sample, and takes existing differences for the normal state. So looks compare the sample until
   * the watch has certainly looked at it. The first time they also compare sets.
   */
  beginWatch(): void {
    const { clock } = this.#options
    const dueMs = clock.now() + 2 * periodMs
    this.#areSetsDue ||= !this.#isWatched
    this.#isWatched = true
    for (const entry of this.#sample) this.#serversDue.set(entry, dueMs)
    this.#dueMs = Math.min(this.#dueMs, dueMs)
  }

  /** The watch saw a difference. */
  note(): void {
    this.#expectAnything()
    this.#dueMs = this.#options.clock.now()
  }

  /** The watch saw that another program released the lock of the tables. */
  noteUnlock(): void {
    this.#unlocks.note()
  }

  /** The watch has ended. */
  endWatch(): void {
    this.#isWatched = false
    this.#dueMs = Math.min(this.#dueMs, nextDueMs(this.#options.clock))
  }

  /** Looks if it is time to. True: the kernel differs from the acknowledged state. Rules that differ are due to be written. */
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
    // The questions go out together: the thread wakes up once for all answers.
    const found = await Promise.all([
      orRefusal(async () => await this.#isCountWrong()),
      areSetsDue ? policies.findsOtherSets() : false,
      orRefusal(async () => await this.#areWrong(servers.map(([entry]) => entry))),
    ])
    // The next use of the kernel reports the error. The differences that the watch saw stay due.
    const isRefused = found.some((answer) => answer === undefined || answer instanceof KernelError)
    this.#areSetsDue ||= isRefused && areSetsDue
    for (const [entry, dueMs] of servers) if (isRefused || dueMs > startMs) this.#expect(entry, dueMs)
    // The looks go on until everything was compared without a difference.
    const isOver = this.#isWatched && this.#seen !== undefined && this.#serversDue.size === 0 && !isRefused
    if (!isOver) this.#dueMs = Math.min(this.#dueMs, nextDueMs(clock))
    return found.includes(true)
  }

  /** The agent changed the kernel: equal bytes need not mean an equal state any more. */
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
    // Without the look, each part of the kernel is read by itself.
    const taken = look instanceof KernelError ? undefined : look
    if (!isComparisonDue && taken !== undefined && this.#seen?.equals(taken) === true) return false
    this.#seen = undefined
    const areRulesDue = isComparisonDue ? await this.#compareRules() : await policies.findsOtherRules('cheap')
    if (family === 'ipv4' && ledger.acknowledgedCount > 0)
      if ((await ipvs.info()).ipv4VirtualServers !== ledger.expectedCount) return true
    if (!areRulesDue && taken !== undefined) this.#seen = Buffer.from(taken)
    return false
  }

  /** Whether rules differ from our last write. */
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

/** The next full second: both families look at the same time, and an idle machine wakes up once for them. */
function nextDueMs(clock: Clock): number {
  return (Math.floor(clock.now() / periodMs) + 1) * periodMs
}
