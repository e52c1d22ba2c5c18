// The table of one family, from a claim to the kernel: NftTable decides when to read, write and retry; TableContent holds what is desired
// and what is acknowledged, frontend by frontend (FrontendEntry); `writeTable` takes what is dirty and plans a Transaction after the
// other, each of which it sends to the addon and confirms. TableReader goes the other way.
import type { Cidr, IpFamily } from '../../../address.js'
import type { Clock } from '../../../clock.js'
import { KernelQuestions, type Pass, type StageTimes } from '../../../engine/index.js'
import { LeftOutObjects, RetryQueue } from '../../objects/index.js'
import { BugError, KernelError } from '../../../errors.js'
import type { NftChange, Nftables, NfOutcome, NfTransaction } from '../../../kernel/index.js'
import type { Log, StateReporter } from '../../../log.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { DesiredRoute } from '../compile/desired.js'
import type { NftModeSettings } from '../compile/settings.js'
import { ClientRoom } from '../client-room.js'
import { CleanUp } from './clean-up.js'
import { Comparison } from './comparison.js'
import { TableContent } from './content.js'
import { FormerClients } from './former-clients.js'
import { networkElements } from './static-sets.js'
import { DriftReports, Reading } from './reading.js'
import { TableReader } from './table-reader.js'
import { writeTable } from './table-write.js'
import type { RefusedDrift } from './transaction.js'

export interface NftTableOptions {
  readonly family: IpFamily
  /** Its `watch()` leaves out the writes of this object. */
  readonly nftables: Nftables
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets what is served with a limit, of both families. */
  readonly warnings: StateReporter
  /** Gets the generation of each transaction of this table. The watch leaves these out, so the other family needs it. */
  readonly onApplied?: (generation: number) => void
  /** Gets the content of other programs that a transaction repaired, by the names of the sets and chains. Absent: nothing gets it. */
  readonly onForeign?: (found: Reading['foreign']) => void
  /** `namespace/name:port`; undefined: the service port does not exist (any more). */
  readonly portNameOf: (route: ServicePortKey) => string | undefined
  /** As in `ComparisonOptions`. */
  readonly sliceCost?: number | undefined
  /** Counts the waits for the kernel as such a stage of the pass. Absent: nothing counts them. */
  readonly stages?: StageTimes
}

export interface NftWriteOptions {
  /** All objects are known: leftovers go, and the objects of another owner of the table are replaced. */
  readonly isComplete: boolean
}

/** Numbers of objects that routes claim, by kind. */
export type NftSizes = Readonly<Record<'frontend' | 'endpoint', number>>

/** Kinds of work, each with its own back-off: the removal of unneeded objects does not delay a write. */
type Work = 'read' | 'write' | 'clean-up'

/**
 * The table of one family. Calls with a promise must not overlap. No method rejects with a KernelError: a refusal is reported as a
 * problem, and tried again.
 */
export class NftTable {
  readonly #options: NftTableOptions
  readonly #content: TableContent
  readonly #reader: TableReader
  readonly #comparison: Comparison
  readonly #drift: DriftReports
  /** Number of transactions that the kernel took so far. */
  #applied = 0
  readonly #cleanUp: CleanUp
  readonly #retries: RetryQueue<Work>
  readonly #questions: KernelQuestions
  readonly #leftOut: LeftOutObjects<ServicePortKey>
  readonly #clientRoom: ClientRoom
  /** The kernel was read once. */
  #isRead = false
  #isBehind = true
  #isStopping = false
  /** All objects are known. */
  #isComplete = false
  /** A write has succeeded. Rules that differ from now on are changes of another program, and no former owner's. */
  #isOurs = false
  /** Another owner of the table serves until all objects are known. */
  #isWaiting = false
  #isDenied = false

  constructor(options: NftTableOptions) {
    const { family, nftables, clock } = options
    this.#options = options
    this.#content = new TableContent(family, clock)
    this.#reader = new TableReader(nftables, this.#content)
    this.#comparison = new Comparison({ ...options, content: this.#content, reader: this.#reader })
    this.#drift = new DriftReports({ ...options, table: this.#content.table.table })
    this.#cleanUp = new CleanUp({ send: this.#send, clock, content: this.#content })
    this.#retries = new RetryQueue(clock)
    this.#questions = new KernelQuestions(options)
    this.#clientRoom = new ClientRoom({ ...options, own: this.#content.own })
    this.#leftOut = new LeftOutObjects({
      ...options,
      nameOf: (route) => `${family} ${route}`,
      servicesOf: (route) => {
        const name = options.portNameOf(route)
        return name === undefined ? [] : [name]
      },
    })
  }

  /** As `TableReader.chainDifferences`. */
  async chainDifferences(): Promise<readonly string[]> {
    return await this.#reader.chainDifferences()
  }

  /** The settings of the whole mode; required before the first `write`. Routes that depend on them must be claimed again. */
  setSettings(settings: NftModeSettings): void {
    this.#content.settings = settings
  }

  /** Networks of cluster IPs: connections to unknown addresses in them are dropped (F-055). Those of the other family are ignored. The kernel's networks stay until the first call. */
  setServiceCidrs(cidrs: readonly Cidr[]): void {
    const { schema, serviceCidrs } = this.#content
    serviceCidrs.want(networkElements(schema.serviceCidrs, this.#options.family, cidrs))
  }

  /**
   * Replaces all claims of the route; undefined releases it. The next write brings the change to the kernel. Keeps no reference to the
   * backends.
   */
  claim(route: ServicePortKey, desired: DesiredRoute | undefined): void {
    this.#content.claim(route, desired)
    this.#leftOut.noteClaim(route)
  }

  get sizes(): NftSizes {
    return this.#content.sizes
  }

  /** Takes in changes of other programs. True: they concern our table, and a look (`partial`) is due. */
  noteChanges(changes: readonly NftChange[]): boolean {
    return this.#content.staleParts.note(changes)
  }

  /** The other family's table was written: the ruleset's generation, and nothing of this table changed. */
  noteOtherFamily(generation: number): void {
    this.#content.staleParts.noteGeneration(generation)
  }

  /** As `TableReader.isFlushed`. False before the first write. */
  async isFlushed(): Promise<boolean> {
    return this.#isOurs && (await this.#reader.isFlushed())
  }

  /**
   * Compares one slice of the kernel with the acknowledged state. `partial` adds what `noteChanges` named to what is left; `full` adds everything,
   * unless the ruleset's generation shows that nothing changed, or everything is left already; `next` adds nothing. True: the kernel differs,
   * and a write is due. False before the first write.
   */
  async look(kind: 'partial' | 'full' | 'next'): Promise<boolean> {
    if (!this.#isRead || this.#isWaiting) return false
    const { staleParts } = this.#content
    if (kind === 'full' && (await this.#noteUnknown()) instanceof KernelError) return false
    if (kind !== 'next') this.#comparison.add(staleParts.take())
    const reading = await this.#readSlice()
    const isWhole = kind === 'full' || this.#comparison.isWhole
    if (reading === undefined || this.isComparing) return reading?.isDifferent === true
    if (isWhole) {
      this.#dropUnneeded()
      await this.#ask('read', async () => await this.#clientRoom.check())
    }
    return reading.isDifferent
  }

  /** A look began a comparison, and the next looks go on with it. */
  get isComparing(): boolean {
    return !this.#isWaiting && !this.#comparison.isDone
  }

  /** The comparison that ended last was one of everything, or the one in progress is. */
  get isComparisonWhole(): boolean {
    return this.#comparison.isWhole
  }

  /** The kernel refused a change, and something else may differ too: a look of the kind `partial` is due. */
  get isLookWanted(): boolean {
    return this.#content.staleParts.isMarked
  }

  /** Everything is stale if there were changes without an event. */
  async #noteUnknown(): Promise<KernelError | void> {
    if (this.isComparing && this.#comparison.isWhole) return
    const { staleParts } = this.#content
    const generation = await this.#ask('read', async () => await this.#options.nftables.generation())
    if (generation instanceof KernelError) return generation
    if (!staleParts.isNone || !staleParts.knows(generation)) staleParts.markAllStale()
  }

  /**
   * Writes what differs from the acknowledged state; the first write reads the kernel before. True: everything is in the kernel,
   * except service ports that the kernel refuses (`dueRoutes`). False: the rest is tried again (`nextInMs`), or another owner of
   * the table serves until all objects are known.
   */
  async write(pass: Pass, { isComplete }: NftWriteOptions): Promise<boolean> {
    if (this.#content.settings === undefined) throw new BugError('a write before the settings')
    if (this.#isWaiting && !isComplete) return false
    // All objects are known from the first such call on.
    if (isComplete && !this.#isComplete) this.#cleanUp.note()
    this.#isComplete ||= isComplete
    if (!(await this.#read()) || !(await this.#readNew())) {
      pass.fail()
      return false
    }
    if (this.#isComplete) this.#content.dropLeftovers()
    this.#isWaiting = !isComplete && !this.#isOurs && this.#content.structure.isForeign
    if (this.#isWaiting) return false
    const before = this.#applied
    const sent = await this.#ask('write', async () => {
      if (!this.#isOurs || this.#content.former !== undefined) await this.#readFormerClients()
      return await this.#writeAll(pass)
    })
    this.#drift.report({ isRepaired: sent !== true || this.#applied > before })
    this.#noteRights(sent)
    this.#isBehind = sent !== true
    if (sent === false) return false
    if (sent instanceof KernelError) {
      this.#options.metrics.nftablesSyncFailures.inc()
      pass.fail(sent)
      return false
    }
    this.#isOurs = true
    // The former owner's sets stay until all objects are known.
    if (this.#isComplete) this.#content.former = undefined
    this.#leftOut.settle()
    await this.#finish(pass)
    return true
  }

  /** A write in progress ends at its next transaction and returns false, as do those that follow. */
  stopSoon(): void {
    this.#isStopping = true
  }

  /** The kernel refuses this process the table (EPERM): the socket of another program owns it, and no rule of ours is in it. */
  get isDenied(): boolean {
    return this.#isDenied
  }

  /** The last write failed, no write was made yet, or a look found a difference. */
  get isBehind(): boolean {
    return this.#isBehind
  }

  /** A write is due although no claim or setting changed: a retry, a repair, or the removal of leftovers. */
  get isWriteDue(): boolean {
    if (this.#isWaiting) return false
    const isDue = (work: Work): boolean => !this.#retries.has(work) || this.#retries.due().includes(work)
    if (this.#isBehind) return isDue('read') && isDue('write')
    if (this.#content.moves.nextInMs() === 0) return true
    const isCleanUpNext = this.#retries.has('clean-up') || this.#cleanUp.nextInMs() === 0
    return this.#isComplete && isCleanUpNext && isDue('clean-up')
  }

  /** Milliseconds until a write or a route is due; undefined: none is, or the next write waits until all objects are known. */
  nextInMs(): number | undefined {
    if (this.#isWaiting) return undefined
    if (this.isWriteDue) return 0
    const times = [this.#retries.nextInMs()]
    if (!this.#isBehind) times.push(this.#leftOut.nextInMs())
    if (!this.#isBehind) times.push(this.#content.moves.nextInMs())
    // Until all objects are known, the leftovers of a former owner stay.
    const isCleanUpNext = this.#isComplete && !this.#isBehind && !this.#retries.has('clean-up')
    if (isCleanUpNext) times.push(this.#cleanUp.nextInMs())
    const next = Math.min(...times.map((time) => time ?? Infinity))
    return next === Infinity ? undefined : next
  }

  /** Whether the kernel refuses service ports, which wait for a retry. */
  get hasRefusals(): boolean {
    return this.#leftOut.nextInMs() !== undefined
  }

  /** Service ports that the kernel refused, to be claimed again now. They wait for a table that could not be written. */
  dueRoutes(): readonly ServicePortKey[] {
    return this.#isBehind ? [] : this.#leftOut.due()
  }

  /** As late as possible: the former owner's rules record clients until the write. */
  async #readFormerClients(): Promise<void> {
    const { nftables, clock } = this.#options
    this.#content.former = new FormerClients({ nftables, clock, content: this.#content })
    await this.#content.former.read()
  }

  #noteRights(answer: unknown): void {
    this.#isDenied = answer instanceof KernelError && answer.code === 'EPERM'
  }

  /** Reads everything, if nothing can be written before. False: the kernel refused. */
  async #read(): Promise<boolean> {
    const { staleParts } = this.#content
    if (this.#isRead && !staleParts.isUnknown) return true
    if (!this.#isRead) this.#content.beginReading({ keepLeftovers: !this.#isComplete })
    const options = { keepsLeftovers: !this.#isRead && !this.#isComplete, isFirst: !this.#isRead }
    const isReported = this.#isRead && !this.#isWaiting
    this.#endComparison()
    const reading = await this.#ask('read', async () => await this.#reader.readAll(options))
    this.#noteRights(reading)
    if (reading instanceof KernelError) {
      this.#isBehind = true
      return false
    }
    if (isReported) this.#noteDrift(reading)
    this.#isRead = true
    return true
  }

  /** Begins to compare what became stale since the look. False: the kernel refused. */
  async #readNew(): Promise<boolean> {
    const { staleParts } = this.#content
    if (!staleParts.hasNew) return true
    this.#comparison.add(staleParts.take())
    return (await this.#readSlice()) !== undefined
  }

  /** undefined: the kernel refused. Then everything is read before the next write. */
  async #readSlice(): Promise<Reading | undefined> {
    const { staleParts } = this.#content
    const reading = new Reading()
    staleParts.isBeingRead = true
    const asked = await this.#ask('read', async () => await this.#comparison.nextSlice(reading))
    staleParts.isBeingRead = this.isComparing
    this.#noteRights(asked)
    if (asked instanceof KernelError) {
      staleParts.markUnknown()
      this.#endComparison()
      this.#isBehind = true
      return undefined
    }
    this.#noteDrift(reading)
    return reading
  }

  /**
   * Another program has changed what a transaction needed. If that is not seen where the kernel refused it, everything is read. Throws
   * KernelError.
   */
  async #readRefused({ isOfStructure, sets }: RefusedDrift): Promise<void> {
    const reading = new Reading()
    if (isOfStructure) await this.#comparison.readStructure(reading)
    for (const { set, keys } of sets) await this.#comparison.ask(set, keys, reading)
    if (reading.isDifferent || reading.hasLostStrays) {
      this.#noteDrift(reading)
      return
    }
    this.#endComparison()
    this.#noteDrift(await this.#reader.readAll({ keepsLeftovers: false }))
  }

  #endComparison(): void {
    this.#comparison.clear()
    this.#content.staleParts.isBeingRead = false
  }

  #noteDrift(reading: Reading): void {
    // Another program may have added objects.
    if (this.#isComplete && this.#content.structure.hasUnknown) this.#cleanUp.note()
    if (!reading.isDifferent) return
    this.#cleanUp.restart()
    this.#isBehind = true
    this.#drift.add(reading)
  }

  /** Chains and sets for values that no frontend has any more go with the next write. */
  #dropUnneeded(): void {
    const { structure } = this.#content
    this.#content.recompile()
    if (!this.#isComplete || !structure.hasUnknown) return
    this.#cleanUp.note()
    this.#isBehind = true
  }

  /** As `writeTable`. */
  async #writeAll(pass: Pass): Promise<boolean> {
    return await writeTable({
      send: this.#send,
      clock: this.#options.clock,
      content: this.#content,
      pass,
      isStopping: () => this.#isStopping,
      readAgain: async (drift) => await this.#readRefused(drift),
      noteLeftOut: (route, cause) => this.#leftOut.add(route, cause),
    })
  }

  /** As `Nftables.apply`. The watch leaves our transactions out, so their generations are noted here. */
  readonly #send = async (transaction: NfTransaction): Promise<NfOutcome> => {
    const { nftables, clock, metrics, onApplied } = this.#options
    const startMs = clock.now()
    const outcome = await nftables.apply(transaction)
    metrics.nftablesTransactionSeconds.observe((clock.now() - startMs) / 1000)
    if (outcome.state === 'applied') this.#applied++
    const { generation } = outcome
    if (generation === undefined) return outcome
    this.#content.staleParts.noteGeneration(generation)
    onApplied?.(generation)
    return outcome
  }

  /** The work that follows once everything is in the kernel. */
  async #finish(pass: Pass): Promise<void> {
    if (this.#content.own.noteWritten()) this.#cleanUp.note()
    if (this.#isComplete) await this.#removeUnknown(pass)
  }

  async #removeUnknown(pass: Pass): Promise<void> {
    if (this.#cleanUp.nextInMs() !== 0) {
      this.#retries.settle('clean-up')
      return
    }
    const errors = await this.#ask('clean-up', async () => await this.#cleanUp.run(pass))
    if (!(errors instanceof KernelError)) for (const error of errors) pass.note(error.message)
    if (errors instanceof KernelError || errors.length > 0) {
      this.#retries.fail('clean-up')
      this.#options.metrics.nftablesCleanupFailures.inc()
    } else this.#retries.settle('clean-up')
  }

  async #ask<T>(work: Work, question: () => Promise<T>): Promise<T | KernelError> {
    const { table } = this.#content.table
    const subjects: Readonly<Record<Work, string>> = {
      read: `table ${table}`,
      write: `table ${table}`,
      'clean-up': `unneeded objects in table ${table}`,
    }
    const about = {
      key: `kernel nftables ${work}`,
      subject: subjects[work],
      fields: { table },
      // Of the removal, the caller decides: the kernel may remove a part.
      ...(work === 'clean-up' ? {} : { retry: this.#retries.of(work) }),
      isPlanning: work === 'write',
    }
    return await this.#questions.ask(about, question)
  }
}
