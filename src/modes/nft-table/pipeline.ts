import { isDeepStrictEqual } from 'node:util'
import type { IpAddress, IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import {
  type FamilyHealth,
  type HealthCheckListeners,
  Intake,
  KernelQuestions,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  type Pipeline,
  reportSizes,
  worldSize,
} from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import type { Conntrack, LinkEvent, Links, NftChange, Nftables, Routes } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import { ServiceCidrs, servicePortName } from '../../model/index.js'
import type { NodeChange, NodeFacts } from '../../node/index.js'
import type { Route } from '../../routing/index.js'
import type { ObjectEvent } from '../../source/index.js'
import { AfterSync, claimDirty, NodeAddresses, type TrafficConfig } from '../shared/index.js'
import { compileRoute } from './compile/compile.js'
import type { NftModeSettings } from './compile/settings.js'
import { describeDesired } from './describe.js'
import { EndpointLimit } from './endpoint-limit.js'
import { NftLookTimes } from './look-times.js'
import { NftTables } from './tables/tables.js'
import type { WatchedTable } from './watch.js'

/** This node and the machine's own addresses. */
export interface NodeState {
  readonly node: NodeFacts
  readonly machine: readonly IpAddress[]
}

export interface NftPipelineOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig
  /** The settings of the table. `machine`: the machine's own addresses of this family. */
  readonly settingsOf: (facts: NodeState) => NftModeSettings
  /** Time between two full comparisons. */
  readonly syncPeriodMs: number
  readonly nftables: Nftables
  readonly conntrack: Conntrack
  readonly links: Links
  readonly routes: Routes
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly listeners: HealthCheckListeners
  /** Gets the generation of each transaction, for the pipeline of the other family. */
  readonly onApplied: (generation: number) => void
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

/** Time until a kernel that could not be read is asked again. */
const retryMs = 1000

/** The path of one family from events to its table. */
export class NftPipeline implements Pipeline, WatchedTable {
  readonly #options: NftPipelineOptions
  readonly #questions: KernelQuestions
  readonly #intake: Intake
  readonly #addresses: NodeAddresses
  readonly #afterSync: AfterSync
  readonly #tables: NftTables
  readonly #lookTimes: NftLookTimes
  readonly #endpointLimit: EndpointLimit
  readonly #history = new PassHistory()
  readonly firstSync: Promise<void>
  #endFirstSync = (): void => {}
  readonly #serviceCidrs: ServiceCidrs
  /** The table does not have the last networks of `#serviceCidrs`. */
  #areCidrsNew = false
  #settings: NftModeSettings | undefined
  #hasTakenOver = false
  #isInForce = false
  #isStopping = false
  /** The time to retry listeners and flows that failed. */
  #settleDueMs = 0

  constructor(options: NftPipelineOptions) {
    this.#options = options
    this.firstSync = new Promise((resolve) => {
      this.#endFirstSync = resolve
    })
    this.#questions = new KernelQuestions(options)
    this.#endpointLimit = new EndpointLimit(options.family, options.warnings)
    this.#intake = new Intake(options)
    this.#serviceCidrs = new ServiceCidrs(options.family)
    this.#addresses = new NodeAddresses(options)
    this.#afterSync = new AfterSync({
      ...options,
      tracker: this.#intake.tracker,
      nodePortAddresses: async () => await this.#addresses.destinations(),
    })
    this.#lookTimes = new NftLookTimes(options.clock, options.syncPeriodMs)
    this.#tables = new NftTables({
      ...options,
      portNameOf: (route) => {
        const port = this.#intake.tracker.servicePort(route)
        return port && servicePortName(port)
      },
    })
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

  applyNode({ routing, modeSettings }: NodeChange): boolean {
    if (routing) this.#intake.tracker.markAll()
    if (modeSettings) this.#addresses.forget()
    return modeSettings
  }

  applyLinks(events: readonly LinkEvent[]): boolean {
    return this.#addresses.applyLinks(events)
  }

  noteChanges(changes: readonly NftChange[]): boolean {
    const isConcerned = this.#tables.noteChanges(changes)
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
  }

  get isInForce(): boolean {
    return this.#isInForce
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  get health(): FamilyHealth {
    return this.#intake.backlog.health
  }

  describe(decided: Route): readonly string[] {
    if (this.#settings === undefined) return []
    return describeDesired(compileRoute(decided, this.#settings), this.#options.family)
  }

  async close(): Promise<void> {
    await this.#afterSync.stop()
  }

  async runOnce(): Promise<number | undefined> {
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next run: objects that came before it
    // may not be claimed in this one.
    const { known, backlog, tracker } = this.#intake
    if (known === 'nothing') return undefined
    const { clock, metrics } = this.#options
    const tables = this.#tables
    const pass = new Pass({ ...this.#options, oldestEventMs: backlog.begin() })
    // Before any write: an object that is missing now was removed by another program.
    const look = await this.#look()
    if (look === 'different') this.#afterSync.recheckFlows()
    // Immediately before the settings: an event during the look makes the last addresses invalid.
    if (!(await this.#readAddresses())) {
      backlog.waitOn()
      return retryMs
    }
    const areCidrsNew = this.#takeServiceCidrs()
    const isRenewed = this.#renewSettings() || areCidrsNew
    pass.reason = this.#reasonOf(look, isRenewed)
    tracker.mark(tables.dueRoutes())
    const routes = await this.#claimDirty()
    metrics.dirtyRoutes.inc(routes)
    if (this.#isStopping) return undefined
    const isTakeover = known === 'synced' && !this.#hasTakenOver
    this.#hasTakenOver ||= isTakeover
    if (routes > 0 || isRenewed || isTakeover || tables.isWriteDue) {
      await this.#write(pass, { look, routes, isRenewed, isTakeover })
    } else if (!tables.isBehind && clock.now() >= this.#settleDueMs) await this.#settle()
    if (tables.isBehind) backlog.waitOn()
    else backlog.settle()
    return Math.min(this.#lookTimes.nextInMs(), tables.nextInMs() ?? Infinity)
  }

  async #write(pass: Pass, { look, routes, isRenewed, isTakeover }: Work): Promise<void> {
    const { metrics } = this.#options
    const tables = this.#tables
    const isWritten = await tables.write(pass, { isComplete: this.#hasTakenOver })
    if (tables.takeDeletedUdpAffinity()) this.#afterSync.recheckFlows()
    reportSizes(metrics, tables.sizes)
    const isFull = isTakeover || isRenewed || look === 'full'
    if (!isWritten) pass.fail()
    const fields = { full: isFull, routes, ...worldSize(this.#intake.tracker), ...tables.sizes }
    const record = pass.end({ hasRefusals: tables.dueRoutes().length > 0, fields })
    this.#history.add(record)
    const duration = isFull ? metrics.fullSyncDurationSeconds : metrics.partialSyncDurationSeconds
    duration.observe(record.durationMs / 1000)
    if (isWritten) await this.#settle()
    this.#isInForce ||= isWritten && this.#hasTakenOver
    if (this.#hasTakenOver) this.#endFirstSync()
  }

  /** The reason of the pass in progress. Called before the service ports to retry become dirty. */
  #reasonOf(look: Look, isRenewed: boolean): PassReason {
    if (!this.#isInForce) return 'start'
    if (this.#intake.tracker.hasDirty || isRenewed) return 'change'
    return look === 'full' || look === 'different' ? 'reconcile' : 'retry'
  }

  /** False: the addresses could not be read. */
  async #readAddresses(): Promise<boolean> {
    const answer = await this.#questions.ask(
      { key: 'read', subject: 'addresses of this machine' },
      async () => await this.#addresses.read(),
    )
    return !(answer instanceof KernelError)
  }

  /** True: the rules of the mode itself may have changed. A change of settings that routes depend on makes all routes dirty. */
  #renewSettings(): boolean {
    const { node, settingsOf } = this.#options
    const former = this.#settings
    const settings = settingsOf({ node: node.facts, machine: this.#addresses.last })
    if (isDeepStrictEqual(settings, former)) return false
    this.#settings = settings
    this.#tables.setSettings(settings)
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
  async #claimDirty(): Promise<number> {
    return await claimDirty({
      ...this.#options,
      tracker: this.#intake.tracker,
      claim: (key, decided) => {
        const desired = decided && this.#settings && compileRoute(decided, this.#settings)
        this.#tables.claim(key, decided?.service ?? '', desired)
        this.#afterSync.note(key, decided)
        this.#endpointLimit.note(key, decided)
      },
      isStopping: () => this.#isStopping,
    })
  }

  async #look(): Promise<Look> {
    const look = this.#lookTimes.take()
    if (look === 'none') return look
    return (await this.#tables.look(look)) ? 'different' : look
  }

  /** The work that follows once everything is in the kernel. */
  async #settle(): Promise<void> {
    const { clock, syncPeriodMs } = this.#options
    this.#settleDueMs = clock.now() + syncPeriodMs
    await this.#afterSync.run({
      conflicts: this.#tables.takeConflicts(),
      isComplete: this.#hasTakenOver,
      machine: this.#addresses.last,
    })
  }
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
