import { isDeepStrictEqual } from 'node:util'
import { KernelError } from '../../errors.js'
import type { LinkEvent } from '../../kernel/index.js'
import { IptablesLedger } from './ledger.js'
import type { PacketTotals } from '../../metrics/index.js'
import type { IptablesModeSettings } from './compile/settings.js'
import { compileRoute, endpointRules } from './compile/compile.js'
import { describeDesired } from './describe.js'
import { differences } from './differences.js'
import { packetRules } from './packet-rules.js'
import { compileSkeleton, countedRules } from './compile/skeleton.js'
import type { ServicePortKey, ServiceView } from '../../model/index.js'
import type { NodeChange } from '../../node/index.js'
import type { Frontend, Route } from '../../routing/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  type CounterReading,
  type FamilyHealth,
  InForceTimes,
  Intake,
  KernelQuestions,
  type PacketRules,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  type Pipeline,
  reportSizes,
  worldSize,
  type ChainNames,
  StageTimes,
} from '../../engine/index.js'
import { ClusterSize } from './cluster-size.js'
import {
  claimDirty,
  ConflictReports,
  RouteDecisions,
  FullSync,
  NodeAddresses,
  readAgainMs,
  type RulePipelineOptions,
} from '../../engine/index.js'
import { AfterSync } from '../shared/index.js'
import { hasFormerOwner } from './former-owner.js'
import { endPass } from './report.js'
import { iptablesSettings } from './node-settings.js'
import { type IptablesXtables, IptablesTables } from './tables.js'
import { readCounters } from './read-counters.js'
import { PacketCounts } from './packet-counts.js'
import { LookTimes } from './look-times.js'

/** Without a difference, full comparisons become less frequent than `syncPeriodMs` (`LookTimes`). */
export interface IptablesPipelineOptions extends RulePipelineOptions {
  /** Packets that conntrack finds invalid are dropped: nf_conntrack_tcp_be_liberal was 0 or absent at the start. */
  readonly dropsInvalid: boolean
  readonly tables: IptablesXtables
  /**
   * Makes the kernel route packets from loopback addresses to endpoints. Called after the write of the guard. It reports its own
   * problems.
   */
  readonly routeLocalnet: () => Promise<void>
  readonly formerChains: ChainNames
}

interface State {
  readonly ledger: IptablesLedger
  readonly tables: IptablesTables
}

/** The look at the tables of a pass; `different`: it found that another program changed one; `none`: no look was due. */
type Look = 'none' | 'cheap' | 'full' | 'different'

/**
 * The path of one family from events to the tables nat and filter. The first sync has no order of importance: a table is replaced
 * as a whole, so the API server's Service and the cluster's DNS are served at the same moment as all others.
 */
export class IptablesPipeline implements Pipeline {
  readonly #options: IptablesPipelineOptions
  readonly #questions: KernelQuestions
  readonly #intake: Intake
  readonly #addresses: NodeAddresses
  readonly #decisions: RouteDecisions
  readonly #afterSync: AfterSync
  readonly #size = new ClusterSize()
  #state: State | undefined
  #hasTakenOver = false
  #settings: IptablesModeSettings | undefined
  /** The run in progress. It never rejects. */
  #run: Promise<unknown> | undefined
  #isInForce = false
  #isLocalhostDue = false
  readonly #fullSync = new FullSync()
  #isStopping = false
  readonly #history = new PassHistory()
  readonly #stages: StageTimes
  readonly #inForce = new InForceTimes({
    isKnown: (key) => this.#intake.tracker.servicePort(key) !== undefined,
    hasFailures: () => this.hasRefusals,
  })
  readonly #packets: PacketCounts
  readonly #lookTimes: LookTimes

  constructor(options: IptablesPipelineOptions) {
    this.#options = options
    this.#stages = new StageTimes(options.clock)
    this.#questions = new KernelQuestions({ ...options, stages: this.#stages })
    this.#intake = new Intake(options)
    this.#addresses = new NodeAddresses(options)
    const reports = new ConflictReports(options)
    const { tracker } = this.#intake
    this.#decisions = new RouteDecisions({ ...options, tracker, reports })
    this.#afterSync = new AfterSync({
      ...options,
      tracker,
      reports,
      translation: {
        ...options,
        nodePortAddresses: async () => await this.#addresses.destinations(),
      },
    })
    this.#packets = new PacketCounts(options.tables.filter)
    this.#lookTimes = new LookTimes(options.clock, options.syncPeriodMs)
  }

  apply(events: readonly ObjectEvent[]): boolean {
    return this.#intake.apply(
      events,
      (known) => this.#state === undefined || (known === 'synced' && !this.#hasTakenOver),
    )
  }

  applyNode({ routing, modeSettings, places }: NodeChange): boolean {
    if (routing) this.#intake.tracker.markAll()
    if (modeSettings) this.#addresses.forget()
    const isConcerned = places && this.#decisions.applyPlaces()
    return modeSettings || isConcerned
  }

  applyLinks(events: readonly LinkEvent[]): boolean {
    const isConcerned = this.#decisions.applyLinks(events)
    return this.#addresses.applyLinks(events) || isConcerned
  }

  stopSoon(): void {
    this.#isStopping = true
  }

  /** The tables are watched from now on; the caller requests a run. */
  beginWatch(): void {
    this.#lookTimes.beginWatch()
  }

  /** The watch saw a difference in a table; the caller requests a run. */
  noteLook(): void {
    this.#lookTimes.note()
  }

  /** The watch saw that another program released the lock of the tables; the caller requests a run. */
  noteUnlock(): void {
    this.#lookTimes.noteUnlock()
  }

  /** The watch has ended: runs look for themselves. */
  endWatch(): void {
    this.#lookTimes.endWatch()
  }

  get knowsObjects(): boolean {
    return this.#intake.known !== 'nothing'
  }

  get isInForce(): boolean {
    return this.#isInForce
  }

  get hasRefusals(): boolean {
    return this.#state?.tables.hasRefusals === true
  }

  get isWatchable(): boolean {
    return this.#isInForce
  }

  get services(): ServiceView {
    return this.#intake.currentTracker
  }

  inForceSince(key: ServicePortKey): number | undefined {
    return this.#inForce.since(key)
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  get health(): FamilyHealth {
    return this.#intake.backlog.health
  }

  async countPackets(): Promise<PacketTotals> {
    // Otherwise the rules in these places may belong to another program.
    const isOurs = this.#isInForce && this.#state?.tables.isBehind === false
    return await this.#packets.read(isOurs && this.#settings ? countedRules(this.#settings) : {})
  }

  async readCounters(): Promise<CounterReading | undefined> {
    const settings = this.#settings
    const ledger = this.#state?.ledger
    // Before the first complete write, the chains in these places may belong to another program.
    if (settings === undefined || ledger === undefined || !this.#isInForce) return undefined
    const { clock, tables } = this.#options
    const { nat } = tables
    const { tracker } = this.#intake
    const wasInForce = this.#inForce.asOfNow()
    return await readCounters(
      { ledger, nat, clock },
      {
        endpointRules: (decided) => endpointRules(decided, settings),
        isOfReading: ({ key }) => !tracker.isDirty(key) && wasInForce(key),
      },
    )
  }

  describe(decided: Route, isLost?: (frontend: Frontend) => boolean): readonly string[] {
    if (this.#settings === undefined) return []
    return describeDesired(compileRoute(decided, this.#settings), this.#options.family, isLost)
  }

  packetRules(): PacketRules | undefined {
    return this.#settings && packetRules(this.#settings)
  }

  async differences(decided: Route): Promise<readonly string[] | undefined> {
    const { tables } = this.#options
    // A run hands its write over in parts: between them a chain may jump to one that does not exist.
    while (this.#run !== undefined) await this.#run
    return this.#settings && (await differences(compileRoute(decided, this.#settings), tables))
  }

  async close(): Promise<void> {
    await this.#afterSync.stop()
  }

  async runOnce(): Promise<number | undefined> {
    const run = this.#runOnce()
    this.#run = run.catch(() => undefined).finally(() => (this.#run = undefined))
    return await run
  }

  async #runOnce(): Promise<number | undefined> {
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next run: objects that came before it
    // may not be claimed in this one.
    const { known, backlog, tracker } = this.#intake
    if (known === 'nothing') return undefined
    const { metrics, syncPeriodMs } = this.#options
    const pass = new Pass({
      ...this.#options,
      events: this.#intake.beginRun(),
      stages: this.#stages,
      inForce: this.#inForce,
    })
    const state = await this.#prepare(known)
    if (state === undefined) {
      backlog.waitOn()
      return readAgainMs
    }
    const { ledger, tables } = state
    // Before any operation of this pass goes to the tables: a rule that is missing now was removed by another program.
    const look = await this.#look(tables)
    if (look === 'different') this.#afterSync.recheckFlows()
    this.#size.update(tracker.endpointCount)
    const isRenewed = this.#renewSettings(ledger)
    pass.reason = this.#reasonOf(look, isRenewed)
    tracker.mark(tables.dueRoutes())
    const routes = await this.#claimDirty(state, pass)
    metrics.dirtyRoutes.inc(routes)
    const isTakenOver = known === 'synced' && this.#takeOver(state)
    if (this.#isStopping) return undefined
    if (routes > 0 || isRenewed || isTakenOver || tables.isWriteDue) {
      const isFull = this.#fullSync.begin(isTakenOver || isRenewed || isComparison(look))
      const written = await tables.write(pass, { mayPrune: known === 'synced' })
      if (written !== undefined) this.#fullSync.noteWritten()
      this.#lookTimes.noteChange()
      reportSizes(metrics, ledger.sizes)
      const sizes = {
        ...worldSize(tracker),
        numFilterRules: ledger.countRules('filter'),
        numNATRules: ledger.countRules('nat'),
      }
      this.#history.add(endPass(pass, { metrics, routes, isFull, written, sizes }))
      if (written !== undefined) await this.#settle(ledger)
      if (written !== undefined && this.#isLocalhostDue) {
        this.#isLocalhostDue = false
        await this.#options.routeLocalnet()
      }
      this.#isInForce ||= written !== undefined && this.#hasTakenOver
    } else if (!tables.isBehind && this.#afterSync.isOlderThan(syncPeriodMs)) {
      await this.#settle(ledger)
    }
    if (tables.isBehind) backlog.waitOn()
    else backlog.settle()
    return Math.min(this.#lookTimes.nextInMs(), tables.nextInMs() ?? Infinity)
  }

  /** The reason of the pass in progress. Called before the service ports to retry become dirty. */
  #reasonOf(look: Look, isRenewed: boolean): PassReason {
    if (!this.#isInForce) return 'start'
    if (this.#intake.tracker.hasDirty || isRenewed) return 'change'
    return isComparison(look) ? 'reconcile' : 'retry'
  }

  /** Reads the kernel's state that a pass needs; undefined: it could not be read. */
  async #prepare(known: 'listed' | 'synced'): Promise<State | undefined> {
    const state = await this.#questions.ask(
      { key: 'read', subject: 'state of the kernel' },
      async () => await this.#readState(known),
    )
    return state instanceof KernelError ? undefined : state
  }

  /** Throws KernelError. */
  async #readState(known: 'listed' | 'synced'): Promise<State> {
    const { tables } = this.#options
    await this.#addresses.read()
    if (this.#state === undefined) {
      const ledger = new IptablesLedger({ isBeside: known === 'listed' && (await hasFormerOwner(tables)) })
      const { tracker } = this.#intake
      const portNameOf = tracker.portName.bind(tracker)
      const options = { ...this.#options, stages: this.#stages, ledger, portNameOf }
      this.#state = { ledger, tables: new IptablesTables(options) }
    }
    return this.#state
  }

  /** True: the skeleton may have changed. A change of settings that routes depend on makes all routes dirty. */
  #renewSettings(ledger: IptablesLedger): boolean {
    const { family, config, dropsInvalid, node } = this.#options
    const former = this.#settings
    const settings = iptablesSettings(family, config, {
      node: node.facts,
      machine: this.#addresses.last,
      dropsInvalid,
      withComments: !this.#size.isLarge,
    })
    if (isDeepStrictEqual(settings, former)) return false
    this.#settings = settings
    this.#isLocalhostDue = settings.localhostNodePorts
    ledger.setSkeleton(compileSkeleton(settings))
    if (former !== undefined && !isDeepStrictEqual(forRoutes(settings), forRoutes(former)))
      this.#intake.tracker.markAll()
    return true
  }

  /** Resolves with the number of service ports that changed. */
  async #claimDirty({ ledger, tables }: State, pass: Pass): Promise<number> {
    const stagings: Promise<void>[] = []
    const routes = await claimDirty({
      ...this.#options,
      pass,
      intake: this.#intake,
      decisions: this.#decisions,
      claim: (key, decided) => {
        const desired = decided && this.#settings && compileRoute(decided, this.#settings)
        ledger.claim(key, decided, desired)
        tables.noteClaim(key)
        this.#afterSync.note(key, decided)
      },
      onSlice: () => {
        // Stages this part while the next one is compiled.
        const staging = tables.stage(pass)
        // A later await throws its error.
        staging.catch(() => {})
        stagings.push(staging)
      },
      isStopping: () => this.#isStopping,
    })
    await Promise.all(stagings)
    return routes
  }

  /** All objects are known: the chains of a former owner are unused. True at the first call. */
  #takeOver({ ledger, tables }: State): boolean {
    if (this.#hasTakenOver) return false
    this.#hasTakenOver = true
    ledger.standAlone()
    tables.pruneSoon()
    return true
  }

  async #look(tables: IptablesTables): Promise<Look> {
    const look = this.#lookTimes.take()
    if (look === 'none') return look
    const isDifferent = look === 'full' ? await tables.compare() : await tables.check()
    if (look === 'full') this.#lookTimes.endComparison()
    return isDifferent ? 'different' : look
  }

  /** The work that follows a complete write, and recurs every sync period. A new owner of a frontend is reported only now. */
  async #settle(ledger: IptablesLedger): Promise<void> {
    await this.#afterSync.run({
      conflicts: ledger.takeConflicts(),
      isComplete: this.#hasTakenOver,
      machine: this.#addresses.last,
    })
  }
}

/** Whether our rules were compared. A cheap look compares a table only if the table has changed. */
function isComparison(look: Look): boolean {
  return look === 'full' || look === 'different'
}

/** The settings without those that only the skeleton depends on. */
function forRoutes(settings: IptablesModeSettings): IptablesModeSettings {
  return { ...settings, nodePortAddresses: 'all', dropsInvalid: true, localhostNodePorts: true }
}
