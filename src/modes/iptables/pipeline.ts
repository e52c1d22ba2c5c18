import { isDeepStrictEqual } from 'node:util'
import type { IpAddress, IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Conntrack, LinkEvent, Links, Routes } from '../../kernel/index.js'
import { IptablesLedger } from './ledger.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics, PacketTotals } from '../../metrics/index.js'
import type { ServicePortKey, Tracker } from '../../model/index.js'
import type { IptablesModeSettings } from './compile/settings.js'
import { compileRoute } from './compile/compile.js'
import { describeDesired } from './describe.js'
import { compileSkeleton, countedRules } from './compile/skeleton.js'
import { dispatchChains, servicePortName } from './compile/names.js'
import {
  type NodeChange,
  type NodeFacts,
  healthCheckAddressesOf,
  nodePortDestinations,
} from '../../node/index.js'
import { type Route, route } from '../../routing/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  Backlog,
  type FamilyHealth,
  applyEvents,
  type HealthCheckListeners,
  KernelQuestions,
  openTracker,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  type Pipeline,
  reportSizes,
  worldSize,
  traceRoute,
  type ChainNames,
} from '../../engine/index.js'
import { ClusterSize } from './cluster-size.js'
import type { Clock } from '../../clock.js'
import {
  ConntrackCleaner,
  LocalPolicyGaps,
  reportConflict,
  ServiceHealthChecks,
  type TrafficConfig,
} from '../shared/index.js'
import { endPass } from './report.js'
import { iptablesSettings, looksAtAddresses } from './node-settings.js'
import { type IptablesXtables, IptablesTables } from './tables.js'
import { PacketCounts } from './packet-counts.js'
import { LookTimes } from './look-times.js'
import { machineAddresses } from '../../host/index.js'

export interface IptablesPipelineOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig
  /** Packets that conntrack finds invalid are dropped: nf_conntrack_tcp_be_liberal was 0 or absent at the start. */
  readonly dropsInvalid: boolean
  /** Time from a write to the next full comparison; without a difference they become less frequent (`LookTimes`). */
  readonly syncPeriodMs: number
  readonly tables: IptablesXtables
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
  /** Makes the kernel route packets from loopback addresses to endpoints (route_localnet). It reports its own problems. */
  readonly serveLocalhost: () => Promise<void>
  readonly listeners: HealthCheckListeners
  readonly formerChains: ChainNames
}

interface State {
  readonly ledger: IptablesLedger
  readonly tables: IptablesTables
}

/** The look at the tables of a pass; `different`: it found that another program changed one; `none`: no look was due. */
type Look = 'none' | 'cheap' | 'full' | 'different'

/** Time until a kernel that could not be read is asked again. */
const retryMs = 1000

/** Longest time for which compiling holds the event loop before other work gets its turn. */
const sliceMs = 8

/**
 * The path of one family from events to the tables nat and filter. The first sync has no order of importance: a table is replaced
 * as a whole, so the API server's Service and the cluster's DNS are served at the same moment as all others.
 */
export class IptablesPipeline implements Pipeline {
  readonly #options: IptablesPipelineOptions
  readonly #questions: KernelQuestions
  readonly #tracker: Tracker
  readonly #cleaner: ConntrackCleaner
  readonly #healthChecks: ServiceHealthChecks
  readonly #size = new ClusterSize()
  readonly #gaps = new LocalPolicyGaps()
  /** Changes that the cleaner of flows does not have yet. */
  #unsettled = new Map<ServicePortKey, Route | undefined>()
  #state: State | undefined
  #hasTakenOver = false
  #known: 'nothing' | 'listed' | 'synced' = 'nothing'
  #settings: IptablesModeSettings | undefined
  #machine: readonly IpAddress[] | undefined
  #isInForce = false
  /** A full sync failed: its retry is a full sync too. */
  #isFullDue = false
  #isStopping = false
  readonly #backlog: Backlog
  readonly #history = new PassHistory()
  readonly #packets: PacketCounts
  readonly #lookTimes: LookTimes
  /** The time to repeat `#settle`, which retries listeners and flows that failed. */
  #settleDueMs = 0

  constructor(options: IptablesPipelineOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
    this.#backlog = new Backlog(options)
    this.#packets = new PacketCounts(options.tables.filter)
    this.#lookTimes = new LookTimes(options.clock, options.syncPeriodMs)
    this.#cleaner = new ConntrackCleaner({
      ...options,
      nodePortAddresses: async () =>
        nodePortDestinations(
          { ...options, node: options.node.facts },
          await machineAddresses(options.family, options),
        ),
    })
    this.#healthChecks = new ServiceHealthChecks(options.family, options)
    this.#tracker = openTracker(options)
  }

  apply(events: readonly ObjectEvent[]): boolean {
    const changes = applyEvents(this.#tracker, events)
    for (const event of events) {
      if (event.type === 'listed' || event.type === 'synced') this.#known = event.type
    }
    const isUnsettled = this.#state === undefined || (this.#known === 'synced' && !this.#hasTakenOver)
    const isWork = this.#known !== 'nothing' && (isUnsettled || this.#tracker.hasDirty)
    if (isWork) this.#backlog.note(changes)
    return isWork
  }

  applyNode({ routing, modeSettings }: NodeChange): boolean {
    if (routing) this.#tracker.markAll()
    if (modeSettings) this.#machine = undefined
    return modeSettings
  }

  applyLinks(events: readonly LinkEvent[]): boolean {
    const { family, config, node } = this.#options
    if (!looksAtAddresses(config, family, node.facts)) return false
    const isConcerned = events.some(
      (event) => event.kind === 'overrun' || (event.kind === 'address' && event.family === family),
    )
    if (isConcerned) this.#machine = undefined
    return isConcerned
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

  get isInForce(): boolean {
    return this.#isInForce
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  get health(): FamilyHealth {
    return this.#backlog.health
  }

  async countPackets(): Promise<PacketTotals> {
    // Otherwise the rules in these places may belong to another program.
    const isOurs = this.#isInForce && this.#state?.tables.isBehind === false
    return await this.#packets.read(isOurs && this.#settings ? countedRules(this.#settings) : {})
  }

  describe(decided: Route): readonly string[] {
    if (this.#settings === undefined) return []
    return describeDesired(compileRoute(decided, this.#settings), this.#options.family)
  }

  async close(): Promise<void> {
    await this.#healthChecks.stop()
  }

  async runOnce(): Promise<number | undefined> {
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next run: objects that came before it
    // may not be claimed in this one.
    const known = this.#known
    if (known === 'nothing') return undefined
    const { clock, metrics } = this.#options
    const pass = new Pass({ ...this.#options, oldestEventMs: this.#backlog.begin() })
    const state = await this.#prepare(known)
    if (state === undefined) {
      this.#backlog.waitOn()
      return retryMs
    }
    const { ledger, tables } = state
    // Before any operation of this pass goes to the tables: a rule that is missing now was removed by another program.
    const look = await this.#look(tables)
    if (look === 'different') this.#cleaner.recheck()
    this.#size.update(this.#tracker.endpointCount)
    const isRenewed = this.#renewSettings(ledger)
    // Not at the start: the addresses that take node ports may depend on the Node.
    if (isRenewed && this.#settings?.localhostNodePorts === true) await this.#options.serveLocalhost()
    pass.reason = this.#reasonOf(look, isRenewed)
    this.#tracker.mark(tables.dueRoutes())
    const routes = await this.#claimDirty(state, pass)
    metrics.dirtyRoutes.inc(routes)
    const isTakenOver = known === 'synced' && this.#takeOver(state)
    if (this.#isStopping) return undefined
    if (routes > 0 || isRenewed || isTakenOver || tables.isWriteDue) {
      this.#isFullDue ||= isTakenOver || isRenewed || isComparison(look)
      const isFull = this.#isFullDue
      const written = await tables.write(pass, { mayPrune: known === 'synced' })
      if (written !== undefined) this.#isFullDue = false
      this.#lookTimes.noteChange()
      reportSizes(metrics, ledger.sizes)
      const sizes = {
        ...worldSize(this.#tracker),
        numFilterRules: ledger.countRules('filter'),
        numNATRules: ledger.countRules('nat'),
      }
      this.#history.add(endPass(pass, { metrics, routes, isFull, written, sizes }))
      if (written !== undefined) await this.#settle(ledger)
      this.#isInForce ||= written !== undefined && this.#hasTakenOver
    } else if (!tables.isBehind && clock.now() >= this.#settleDueMs) {
      await this.#settle(ledger)
    }
    if (tables.isBehind) this.#backlog.waitOn()
    else this.#backlog.settle()
    return Math.min(this.#lookTimes.nextInMs(), tables.nextInMs() ?? Infinity)
  }

  /** The reason of the pass in progress. Called before the service ports to retry become dirty. */
  #reasonOf(look: Look, isRenewed: boolean): PassReason {
    if (!this.#isInForce) return 'start'
    if (this.#tracker.hasDirty || isRenewed) return 'change'
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
    const { family, config, node, tables } = this.#options
    if (this.#machine === undefined)
      this.#machine = looksAtAddresses(config, family, node.facts)
        ? await machineAddresses(family, this.#options)
        : []
    if (this.#state === undefined) {
      const ledger = new IptablesLedger({ isBeside: known === 'listed' && (await hasFormerOwner(tables)) })
      const portNameOf = (of: ServicePortKey): string | undefined => {
        const port = this.#tracker.servicePort(of)
        return port && servicePortName(port)
      }
      this.#state = { ledger, tables: new IptablesTables({ ...this.#options, ledger, portNameOf }) }
    }
    return this.#state
  }

  /** True: the skeleton may have changed. A change of settings that routes depend on makes all routes dirty. */
  #renewSettings(ledger: IptablesLedger): boolean {
    const { family, config, dropsInvalid, node } = this.#options
    const former = this.#settings
    const settings = iptablesSettings(family, config, {
      node: node.facts,
      machine: this.#machine ?? [],
      dropsInvalid,
      withComments: !this.#size.isLarge,
    })
    if (isDeepStrictEqual(settings, former)) return false
    this.#settings = settings
    ledger.setSkeleton(compileSkeleton(settings))
    if (former !== undefined && !isDeepStrictEqual(forRoutes(settings), forRoutes(former)))
      this.#tracker.markAll()
    return true
  }

  /** Resolves with the number of service ports that changed. */
  async #claimDirty({ ledger, tables }: State, pass: Pass): Promise<number> {
    const { clock } = this.#options
    let sliceStartMs = clock.now()
    const stagings: Promise<void>[] = []
    const dirty = this.#tracker.take()
    for (const key of dirty) {
      if (this.#isStopping) break
      this.#claim(ledger, key)
      tables.noteClaim(key)
      if (clock.now() - sliceStartMs < sliceMs) continue
      // Stages this part while the next one is compiled.
      const staging = tables.stage(pass)
      // A later await throws its error.
      staging.catch(() => {})
      stagings.push(staging)
      await clock.pause()
      sliceStartMs = clock.now()
    }
    await Promise.all(stagings)
    return dirty.size
  }

  #claim(ledger: IptablesLedger, key: ServicePortKey): void {
    const { family, log, node } = this.#options
    const port = this.#tracker.servicePort(key)
    const endpoints = port === undefined ? [] : this.#tracker.endpoints(port)
    const decided = port && route(port, endpoints, node.facts)
    traceRoute(log, family, key, decided)
    const desired = decided && this.#settings && compileRoute(decided, this.#settings)
    ledger.claim(key, port?.service ?? '', desired)
    this.#gaps.put(key, decided)
    if (decided === undefined || decided.protocol === 'UDP') this.#unsettled.set(key, decided)
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
    const { family, clock, metrics, syncPeriodMs, warnings } = this.#options
    this.#settleDueMs = clock.now() + syncPeriodMs
    for (const conflict of ledger.takeConflicts()) reportConflict(warnings, { family, ...conflict })
    for (const policy of ['internal', 'external'] as const)
      metrics.noLocalEndpoints(policy).set(this.#gaps.count(policy))
    if (this.#hasTakenOver) await this.#cleanFlows()
    await this.#syncHealthChecks()
  }

  /** Only once all objects are known: flows to endpoints that were not read yet are not stale. */
  async #cleanFlows(): Promise<void> {
    const changes = this.#unsettled
    this.#unsettled = new Map()
    await this.#cleaner.clean(changes)
  }

  async #syncHealthChecks(): Promise<void> {
    const { family, config, node } = this.#options
    const checks = this.#tracker.healthChecks(node.facts.name)
    const addresses = healthCheckAddressesOf({ family, config, node: node.facts }, this.#machine ?? [])
    await this.#healthChecks.sync(checks, addresses)
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

/** Whether base chains of kube-proxy or of a former run exist. Throws KernelError. */
async function hasFormerOwner(tables: IptablesXtables): Promise<boolean> {
  const wanted = Object.values(dispatchChains)
  for (const table of ['nat', 'filter'] as const) {
    const present = new Set((await tables[table].chains()).map(({ chain }) => chain))
    if (wanted.some((base) => base.table === table && present.has(base.chain))) return true
  }
  return false
}
