// A look at the kernel between two reconciles: the kernel sends no notification of most changes.
import { KernelError, orRefusal } from '../../errors.js'
import type { VirtualServerKey } from '../../kernel/index.js'
import type { IpvsContext } from './context.js'
import type { Reconciler } from './reconciler.js'
import type { Entry } from './tables/entry.js'
import type { IpvsLedger } from './tables/ledger.js'
import { isAsAcknowledged } from './tables/server-kind.js'
import type { Clock } from '../../clock.js'
import type { Look } from '../../engine/index.js'
import type { SetsAndChains } from './sets-and-chains.js'
import { restAfterEventsMs, LockReleaseSchedule } from '../shared/index.js'

interface CheckedParts {
  readonly ledger: IpvsLedger
  readonly rules: SetsAndChains
  readonly reconciler: Reconciler
}

const periodMs = 1000

/** Virtual servers of a family that one look compares: 2 system calls each for IPv4, 3 for IPv6, regardless of their real servers. */
const sampleSize = 16

/**
 * Looks at one family when the watch saw a difference, within a second after the agent changed the kernel, and every second without
 * a watch. Looks then repeat every second until one has compared everything that is due and found no difference. Compared are:
 *
 * - the numbers of entries of the x_tables tables and of IPv4 virtual servers, all at once (`KernelLook.take`). If the bytes equal
 *   those of the last look without a difference, nothing was added or removed. Otherwise the rules are checked, and the IPv4 virtual
 *   servers are counted;
 * - sets by their numbers of entries, if the watch saw a difference or there is no watch;
 * - up to `sampleSize` virtual servers byte for byte, others at each turn.
 *
 * So a flush or an addition in tables, sets or IPv4 virtual servers is found within seconds, and so is any change of virtual servers
 * that are in the sample; the next reconcile finds the others. All rules are compared byte for byte after another program released
 * the lock of the tables. In the flavour nft `KernelLook` sees no rules; events of nf_tables request their comparison.
 */
export class DriftCheck {
  readonly #context: IpvsContext
  readonly #parts: CheckedParts
  readonly #clock: Pick<Clock, 'now'>
  #dueMs: number
  /** The bytes of the last `KernelLook.take` without a difference; undefined: the next look must compare. */
  #seen: Buffer | undefined
  #isWatched = false
  /** The virtual servers that the watch, or without a watch the last look, compares. */
  #sample: readonly Entry[] = []
  /** The next look compares sets. */
  #areSetsDue = false
  /** Virtual servers that the next look compares, and every later one until the given time. */
  readonly #serversDue = new Map<Entry, number>()
  /** The times of the comparisons of all rules after an unlock. */
  readonly #lockReleases: LockReleaseSchedule

  constructor(context: IpvsContext, parts: CheckedParts) {
    this.#context = context
    this.#parts = parts
    this.#clock = context.lookClock ?? context.clock
    this.#lockReleases = new LockReleaseSchedule(
      this.#clock,
      context.flavour === 'nft' ? restAfterEventsMs : undefined,
    )
    this.#dueMs = nextDueMs(this.#clock)
  }

  /** Milliseconds until the next look; Infinity: only the watch or a change of the agent causes one. */
  nextInMs(): number {
    return Math.max(0, Math.min(this.#dueMs, this.#lockReleases.dueMs) - this.#clock.now())
  }

  /** The virtual servers to watch; `isTurn`: choose the next ones, if there are more than `sampleSize`. */
  takeSample(isTurn: boolean): readonly VirtualServerKey[] {
    const { ledger } = this.#parts
    if (isTurn || this.#sample.length < sampleSize) this.#sample = ledger.takeSample(sampleSize)
    return this.#sample.map(({ key }) => key)
  }

  /**
   * The watch begins again with the sample. Its first reading is its reference, differences included. So each look compares the
   * sample until the watch has certainly read it once, two periods later. When looks were not watched before, the next one also
   * compares sets.
   */
  beginWatch(): void {
    const clock = this.#clock
    const dueMs = clock.now() + 2 * periodMs
    this.#areSetsDue ||= !this.#isWatched
    this.#isWatched = true
    for (const entry of this.#sample) this.#serversDue.set(entry, dueMs)
    this.#dueMs = Math.min(this.#dueMs, dueMs)
  }

  /** The watch saw a difference. */
  noteLook(): void {
    this.#expectAnything()
    this.#dueMs = this.#clock.now()
  }

  /** The watch saw that another program released the lock of the tables, or changed our chains in nf_tables. */
  noteUnlock(): void {
    this.#lockReleases.note()
  }

  /** The watch has ended: looks come every second again. */
  endWatch(): void {
    this.#isWatched = false
    this.#dueMs = Math.min(this.#dueMs, nextDueMs(this.#clock))
  }

  /** Looks if a look is due. A table of rules that differs is due to be written; other differences request a reconcile. */
  async look(): Promise<Exclude<Look, 'failed'>> {
    const clock = this.#clock
    const { ledger, rules, reconciler } = this.#parts
    if (this.nextInMs() > 0) return 'none'
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
      areSetsDue ? rules.findsOtherSets() : false,
      orRefusal(async () => await this.#areWrong(servers.map(([entry]) => entry))),
    ])
    // The next use of the kernel reports the error. The differences that the watch saw stay due.
    const isRefused = found.some((answer) => answer === undefined || answer instanceof KernelError)
    this.#areSetsDue ||= isRefused && areSetsDue
    for (const [entry, dueMs] of servers) if (isRefused || dueMs > startMs) this.#expect(entry, dueMs)
    // Looks repeat until one has compared everything that is due and found no difference.
    const isOver = this.#isWatched && this.#seen !== undefined && this.#serversDue.size === 0 && !isRefused
    if (!isOver) this.#dueMs = Math.min(this.#dueMs, nextDueMs(clock))
    if (found.includes(true)) reconciler.request()
    return found.includes(true) || found.includes('rules') ? 'different' : 'partial'
  }

  /** The agent changed the kernel: equal bytes need not mean an equal state any more. */
  forget(): void {
    this.#seen = undefined
    this.#dueMs = Math.min(this.#dueMs, nextDueMs(this.#clock))
  }

  #expectAnything(): void {
    this.#seen = undefined
    this.#areSetsDue = true
    for (const entry of this.#sample) this.#expect(entry, this.#clock.now())
  }

  #expect(entry: Entry, untilMs: number): void {
    this.#serversDue.set(entry, Math.max(untilMs, this.#serversDue.get(entry) ?? 0))
  }

  /** `rules`: only the rules differ. */
  async #isCountWrong(): Promise<boolean | 'rules'> {
    const { family, kernel } = this.#context
    const { ledger, rules } = this.#parts
    const isComparisonDue = this.#lockReleases.dueMs <= this.#clock.now()
    const look = await orRefusal(async () => await this.#context.look.take())
    // If the bytes cannot be read, each part of the kernel is read by itself.
    const taken = look instanceof KernelError ? undefined : look
    if (!isComparisonDue && taken !== undefined && this.#seen?.equals(taken) === true) return false
    this.#seen = undefined
    const areRulesDue = isComparisonDue ? await this.#compareRules() : await rules.findsOtherRules('cheap')
    if (family === 'ipv4' && ledger.acknowledgedCount > 0)
      if ((await kernel.ipvs.info()).ipv4VirtualServers !== ledger.expectedCount) return true
    if (areRulesDue) return 'rules'
    if (taken !== undefined) this.#seen = Buffer.from(taken)
    return false
  }

  /** Compares all rules. True: a table is due to be written. */
  async #compareRules(): Promise<boolean> {
    this.#lockReleases.begin()
    const areDue = await this.#parts.rules.findsOtherRules('full')
    this.#lockReleases.end()
    return areDue
  }

  async #areWrong(entries: readonly Entry[]): Promise<boolean> {
    const { ipvs } = this.#context.kernel
    const known = entries.filter(({ acknowledged, isStale }) => acknowledged !== undefined && !isStale)
    if (known.length === 0) return false
    return !isAsAcknowledged(known, await ipvs.read(known.map(({ key }) => key)))
  }
}

/** The next full second: both families look at the same time, and an idle machine wakes up once for them. */
function nextDueMs(clock: Pick<Clock, 'now'>): number {
  return (Math.floor(clock.now() / periodMs) + 1) * periodMs
}
