import { isDeepStrictEqual } from 'node:util'
import type { IpFamily } from '../../address.js'
import {
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
  StageTimes,
} from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import type { LinkEvent, NftChange, Nftables } from '../../kernel/index.js'
import type { PacketTotals } from '../../metrics/index.js'
import { ServiceCidrs, type ServiceView, type ServicePortKey } from '../../model/index.js'
import type { NodeChange } from '../../node/index.js'
import type { Frontend, Route } from '../../routing/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  claimDirty,
  ConflictReports,
  RouteDecisions,
  FullSync,
  NodeAddresses,
  readAgainMs,
  type RulePipelineOptions,
} from '../../engine/index.js'
import { AfterSync, type AfterSyncPart } from '../shared/index.js'
import { compileRoute } from './compile/compile.js'
import type { NftModeSettings } from './compile/settings.js'
import { tableName } from './compile/schema.js'
import { describeDesired } from './describe.js'
import { differences } from './differences.js'
import { packetRules } from './packet-rules.js'
import { EndpointLimit } from './endpoint-limit.js'
import type { FixedRules } from './fixed-rules.js'
import { NftLookTimes } from './look-times.js'
import type { NodeState } from './node-state.js'
import type { QuietGap } from './quiet-gap.js'
import { OtherAgents } from './other-agents.js'
import { NftTables } from './tables/tables.js'
import type { WatchedTable } from './watch.js'

export interface NftPipelineOptions extends RulePipelineOptions {
  /** The settings of the table. `machine`: the machine's own addresses of this family. */
  readonly settingsOf: (facts: NodeState) => NftModeSettings
  readonly nftables: Nftables
  /** Gets the generation of each transaction, for the pipeline of the other family. */
  readonly onApplied: (generation: number) => void
  /** Rules outside of the table that the mode needs as well. Absent: none. */
  readonly fixedRules?: FixedRules
  /** Shortest time between two syncs. */
  readonly minSyncPeriodMs: number
  /** Shared by both families. Absent: runs follow each other at any time. */
  readonly quietGap?: QuietGap
  /** Further work after each sync. Absent: none. */
  readonly also?: AfterSyncPart | undefined
}

/** The kind of the last look at the table; `different`: another program changed it. */
type Look = 'none' | 'suspect' | 'full' | 'different'

/** Facts about a run that decide on its metrics. */
interface Work {
  readonly look: Look
  readonly routes: number
  readonly isRenewed: boolean
  /** All objects are known for the first time: what a former owner left goes. */
  readonly isTakeover: boolean
}

/** The path of one family from events to its table. */
export class NftPipeline implements Pipeline, WatchedTable {
  readonly #options: NftPipelineOptions
  readonly #questions: KernelQuestions
  readonly #intake: Intake
  readonly #addresses: NodeAddresses
  readonly #decisions: RouteDecisions
  readonly #afterSync: AfterSync
  readonly #tables: NftTables
  readonly #lookTimes: NftLookTimes
  readonly #otherAgents: OtherAgents
  readonly #endpointLimit: EndpointLimit
  readonly #history = new PassHistory()
  readonly #stages: StageTimes
  readonly #inForce = new InForceTimes({
    isKnown: (key) => this.#intake.tracker.servicePort(key) !== undefined,
    hasFailures: () => this.hasRefusals,
  })
  readonly firstSync: Promise<void>
  #endFirstSync = (): void => {}
  readonly #serviceCidrs: ServiceCidrs
  /** The table does not have the last networks of `#serviceCidrs`. */
  #areCidrsNew = false
  #settings: NftModeSettings | undefined
  #hasTakenOver = false
  #isInForce = false
  #isWatchable = false
  readonly #fullSync = new FullSync()
  #isStopping = false
  /** The run in progress has called `#write`. */
  #hasWritten = false
  /** Absent without fixed rules: those of the table count no packets. */
  readonly countPackets?: () => Promise<PacketTotals>

  constructor(options: NftPipelineOptions) {
    this.#options = options
    this.firstSync = new Promise((resolve) => {
      this.#endFirstSync = resolve
    })
    const stages = new StageTimes(options.clock)
    this.#stages = stages
    this.#questions = new KernelQuestions({ ...options, stages })
    this.#endpointLimit = new EndpointLimit(options.family, options.warnings)
    this.#intake = new Intake(options)
    this.#serviceCidrs = new ServiceCidrs(options.family)
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
    this.#lookTimes = new NftLookTimes(options.clock, options.syncPeriodMs)
    this.#otherAgents = new OtherAgents({ ...options, mode: 'table' })
    this.#tables = new NftTables({
      ...options,
      onForeign: (found) => this.#otherAgents.noteForeign(found),
      stages,
      portNameOf: tracker.portName.bind(tracker),
    })
    const { fixedRules } = options
    if (fixedRules !== undefined) this.countPackets = async () => await fixedRules.countPackets()
  }

  apply(events: readonly ObjectEvent[]): boolean {
    const changes = events.filter((event) => this.#serviceCidrs.apply(event))
    if (changes.length > 0 && this.#serviceCidrs.networks !== undefined) this.#areCidrsNew = true
    return this.#intake.apply(
      events,
      (known) =>
        this.#settings === undefined || this.#areCidrsNew || (known === 'synced' && !this.#hasTakenOver),
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

  noteChanges(changes: readonly NftChange[]): boolean {
    this.#otherAgents.note(changes)
    if (concernsTable(changes, this.#options.family)) this.#options.quietGap?.hurry()
    const isFixedConcerned = this.#options.fixedRules?.noteChanges(changes) === true
    const isConcerned = this.#tables.noteChanges(changes) || isFixedConcerned
    if (isConcerned) this.#lookTimes.noteChange()
    return isConcerned
  }

  /** The other family's pipeline made a transaction of this generation. */
  noteOtherFamily(generation: number): void {
    this.#tables.noteOtherFamily(generation)
  }

  noteWatch(): void {
    this.#lookTimes.noteWatch()
  }

  stopSoon(): void {
    this.#isStopping = true
    this.#tables.stopSoon()
    this.#options.quietGap?.hurry()
  }

  get knowsObjects(): boolean {
    return this.#intake.known !== 'nothing'
  }

  get isInForce(): boolean {
    return this.#isInForce && !this.#tables.isDenied
  }

  get hasRefusals(): boolean {
    return this.#tables.hasRefusals
  }

  get isWatchable(): boolean {
    return this.#isWatchable
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
    const { health } = this.#intake.backlog
    return { ...health, isHealthy: health.isHealthy && !this.#tables.isDenied }
  }

  describe(decided: Route, isLost?: (frontend: Frontend) => boolean): readonly string[] {
    if (this.#settings === undefined) return []
    return describeDesired(compileRoute(decided, this.#settings), this.#options.family, isLost)
  }

  packetRules(): PacketRules | undefined {
    const { also } = this.#options
    const serviceCidrs = this.#serviceCidrs.networks ?? []
    return (
      this.#settings &&
      packetRules(this.#settings, {
        serviceCidrs,
        relayedLoopback: also?.listensOn,
      })
    )
  }

  async differences(decided: Route): Promise<readonly string[] | undefined> {
    const { family, nftables } = this.#options
    if (this.#settings === undefined) return undefined
    return [
      ...(await differences(compileRoute(decided, this.#settings), family, nftables)),
      ...(await this.#tables.chainDifferences()),
      ...((await this.#options.fixedRules?.differences()) ?? []),
    ]
  }

  async close(): Promise<void> {
    await this.#afterSync.stop()
  }

  async runOnce(): Promise<number | undefined> {
    const { quietGap } = this.#options
    await quietGap?.begin()
    this.#hasWritten = false
    try {
      return await this.#run()
    } finally {
      quietGap?.end({ hasWritten: this.#hasWritten })
    }
  }

  async #run(): Promise<number | undefined> {
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next run: objects that came before it
    // may not be claimed in this one.
    const { known, backlog, tracker } = this.#intake
    if (known === 'nothing') return undefined
    const { metrics, fixedRules, syncPeriodMs } = this.#options
    const tables = this.#tables
    const pass = new Pass({
      ...this.#options,
      events: this.#intake.beginRun(),
      stages: this.#stages,
      inForce: this.#inForce,
    })
    // Before any write: an object that is missing now was removed by another program.
    const look = await this.#look()
    if (look === 'different') this.#afterSync.recheckFlows()
    // Immediately before the settings: an event during the look makes the last addresses invalid.
    if (!(await this.#readKernel(known))) {
      backlog.waitOn()
      return readAgainMs
    }
    const areCidrsNew = this.#takeServiceCidrs()
    const isRenewed = this.#renewSettings() || areCidrsNew
    pass.reason = this.#reasonOf(look, isRenewed)
    tracker.mark(tables.dueRoutes())
    if (fixedRules !== undefined) tracker.mark(fixedRules.dueRoutes())
    const routes = await this.#claimDirty(pass)
    metrics.dirtyRoutes.inc(routes)
    if (this.#isStopping) return undefined
    const isTakeover = known === 'synced' && !this.#hasTakenOver
    this.#hasTakenOver ||= isTakeover
    const isWriteDue = tables.isWriteDue || fixedRules?.isWriteDue === true
    if (routes > 0 || isRenewed || isTakeover || isWriteDue) {
      await this.#write(pass, { look, routes, isRenewed, isTakeover })
    } else if (!this.#isBehind && this.#afterSync.isOlderThan(syncPeriodMs)) await this.#settle()
    if (this.#isBehind) backlog.waitOn()
    else backlog.settle()
    return Math.min(
      this.#lookTimes.nextInMs(),
      tables.nextInMs() ?? Infinity,
      fixedRules?.nextInMs() ?? Infinity,
      this.#otherAgents.nextInMs() ?? Infinity,
    )
  }

  get #isBehind(): boolean {
    return this.#tables.isBehind || this.#options.fixedRules?.isBehind === true
  }

  async #write(pass: Pass, { look, routes, isRenewed, isTakeover }: Work): Promise<void> {
    const { metrics } = this.#options
    const tables = this.#tables
    this.#hasWritten = true
    const isFull = this.#fullSync.begin(isTakeover || isRenewed || look === 'full')
    const isWritten = await this.#writeAll(pass)
    if (tables.takeDeletedUdpAffinity()) this.#afterSync.recheckFlows()
    reportSizes(metrics, tables.sizes)
    if (isWritten) this.#fullSync.noteWritten()
    else pass.fail()
    const fields = { full: isFull, routes, ...worldSize(this.#intake.tracker), ...tables.sizes }
    const record = pass.end({ hasRefusals: tables.dueRoutes().length > 0, fields })
    this.#history.add(record)
    const duration = isFull ? metrics.fullSyncDurationSeconds : metrics.partialSyncDurationSeconds
    duration.observe(record.durationMs / 1000)
    if (isWritten) await this.#settle()
    this.#isInForce ||= isWritten && this.#hasTakenOver
    this.#isWatchable ||= isWritten
    if (this.#hasTakenOver || isWritten) this.#endFirstSync()
  }

  /**
   * The fixed rules come first, since the table serves with them only. At a takeover, those that a former owner still serves by go when
   * the table is in force. False: something is not in the kernel.
   */
  async #writeAll(pass: Pass): Promise<boolean> {
    const { fixedRules } = this.#options
    const options = { isComplete: this.#hasTakenOver }
    if (fixedRules === undefined) return await this.#tables.write(pass, options)
    const isFixed = await pass.stages.inKernel(async () => await fixedRules.write(pass, options))
    if (!fixedRules.isInForce || !(await this.#tables.write(pass, options))) return false
    if (!this.#hasTakenOver) return isFixed
    return (await pass.stages.inKernel(async () => await fixedRules.takeOver(pass))) && isFixed
  }

  /** The reason of the pass in progress. Called before the service ports to retry become dirty. */
  #reasonOf(look: Look, isRenewed: boolean): PassReason {
    if (!this.#isInForce) return 'start'
    if (this.#intake.tracker.hasDirty || isRenewed) return 'change'
    return look === 'full' || look === 'different' ? 'reconcile' : 'retry'
  }

  /** Reads the kernel's state that a run needs. False: it could not be read. */
  async #readKernel(known: 'listed' | 'synced'): Promise<boolean> {
    const { fixedRules } = this.#options
    const subject = fixedRules === undefined ? 'addresses of this machine' : 'state of the kernel'
    const answer = await this.#questions.ask({ key: 'read', subject }, async () => {
      await this.#addresses.read()
      await fixedRules?.open(known)
    })
    return !(answer instanceof KernelError)
  }

  /** True: the rules of the mode itself may have changed. A change of settings that routes depend on makes all routes dirty. */
  #renewSettings(): boolean {
    const { node, settingsOf, fixedRules } = this.#options
    const former = this.#settings
    const state = { node: node.facts, machine: this.#addresses.last }
    const settings = settingsOf(state)
    if (isDeepStrictEqual(settings, former)) return false
    this.#settings = settings
    this.#tables.setSettings(settings)
    fixedRules?.setNode(state)
    if (former !== undefined && !isDeepStrictEqual(forRoutes(settings), forRoutes(former)))
      this.#intake.tracker.markAll()
    return true
  }

  /** True: the networks of cluster IPs may have changed. */
  #takeServiceCidrs(): boolean {
    const { networks } = this.#serviceCidrs
    if (!this.#areCidrsNew || networks === undefined) return false
    this.#areCidrsNew = false
    this.#tables.setServiceCidrs(networks)
    return true
  }

  /** Resolves with the number of service ports that changed. */
  async #claimDirty(pass: Pass): Promise<number> {
    return await claimDirty({
      ...this.#options,
      pass,
      intake: this.#intake,
      decisions: this.#decisions,
      claim: (key, decided) => {
        const desired = decided && this.#settings && compileRoute(decided, this.#settings)
        this.#tables.claim(key, decided, desired)
        this.#options.fixedRules?.claim(key, decided)
        this.#afterSync.note(key, decided)
        this.#endpointLimit.note(key, decided)
      },
      isStopping: () => this.#isStopping,
    })
  }

  async #look(): Promise<Look> {
    const look = await this.#dueLook()
    if (look === 'none') return look
    const isDifferent = await this.#tables.look(look)
    const { fixedRules } = this.#options
    const isFixedDifferent = await this.#stages.inKernel(async () => (await fixedRules?.look(look)) === true)
    return isDifferent || isFixedDifferent ? 'different' : look
  }

  async #dueLook(): Promise<'none' | 'suspect' | 'full'> {
    const times = this.#lookTimes
    times.setOther(this.#otherAgents.runningNow())
    const look = times.take()
    if (look !== 'flush') return look
    if (!(await this.#tables.isFlushed())) return 'none'
    times.noteFlush()
    return 'suspect'
  }

  /** The work that follows once everything is in the kernel. */
  async #settle(): Promise<void> {
    const { fixedRules } = this.#options
    await this.#afterSync.run({
      conflicts: [...this.#tables.takeConflicts(), ...(fixedRules?.takeConflicts() ?? [])],
      isComplete: this.#hasTakenOver,
      machine: this.#addresses.last,
    })
  }
}

/** Whether a change made or removed the whole table of this family: without it, no Service is served. */
function concernsTable(changes: readonly NftChange[], family: IpFamily): boolean {
  return changes.some(
    (change) =>
      change.kind === 'transaction' &&
      change.objects.some(
        (object) => object.kind === 'table' && object.family === family && object.table === tableName,
      ),
  )
}

/** The settings without those that only the rules of the mode itself depend on. */
function forRoutes(settings: NftModeSettings): NftModeSettings {
  return {
    ...settings,
    masqueradeMark: 0,
    masqueradeAll: false,
    localDetector: undefined,
    nodePortAddresses: 'all',
    localhostNodePorts: false,
  }
}
