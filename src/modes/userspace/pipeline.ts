import { isDeepStrictEqual } from 'node:util'
import type { IpAddress, IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import {
  type FamilyHealth,
  type HealthCheckListeners,
  InForceTimes,
  Intake,
  KernelQuestions,
  type PacketRules,
  Pass,
  PassHistory,
  type PassReason,
  type PassRecord,
  type Pipeline,
  type ServiceFlow,
  reportSizes,
  worldSize,
  StageTimes,
} from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import { machineAddresses } from '../../host/index.js'
import { type LinkEvent, type Links, natGuardTables, type Ports, type Routes } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import {
  areNodePortsEverywhere,
  localDetectorOf,
  type NodeChange,
  type NodeFacts,
  nodePortSockets,
} from '../../node/index.js'
import { addressesOf, type Frontend, type Route } from '../../routing/index.js'
import type { ServicePortKey, ServiceView } from '../../model/index.js'
import type { ObjectEvent } from '../../source/index.js'
import {
  compileRoute,
  nearClients,
  type RelayRouteSettings,
  RelayTable,
  type SharedRelay,
} from '../relay/index.js'
import { claimDirty, ConflictReports, RouteDecisions, type TrafficConfig } from '../../engine/index.js'
import { AfterSync, releaseUnwanted } from '../shared/index.js'
import { ForeignAddresses, NatGuard, type NatGuardOptions, VipBindings } from '../vips/index.js'
import { describeDesired } from './describe.js'
import { differences } from './differences.js'
import { flowsOf } from './read-flows.js'
import { packetRules } from './packet-rules.js'
import { SharedAddresses } from './shared-addresses.js'
import { UnservedPorts } from './unserved-ports.js'

export interface UserspacePipelineOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig
  /** Longest time between two readings of the kernel. */
  readonly syncPeriodMs: number
  readonly relay: SharedRelay
  readonly links: Links
  readonly routes: Routes
  readonly ports: Ports
  readonly nftables: NatGuardOptions['nftables']
  readonly activeTables: NatGuardOptions['activeTables']
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  /** Gets hints for the operator about the VIPs. */
  readonly hints: StateReporter
  readonly listeners: HealthCheckListeners
  /** This process may not bind lower ports; undefined: it may, or that is not known. */
  readonly firstFreePort: number | undefined
}

/** Time until a kernel or a relay that refused a whole request is asked again. */
const retryMs = 1000

/** The path of one family from events to VIP routes and to listeners of the relay. */
export class UserspacePipeline implements Pipeline {
  readonly #options: UserspacePipelineOptions
  readonly #questions: KernelQuestions
  readonly #intake: Intake
  readonly #table: RelayTable
  readonly #vips: VipBindings
  readonly #guard: NatGuard
  readonly #foreign: ForeignAddresses
  readonly #unserved: UnservedPorts
  readonly #shared: SharedAddresses
  readonly #decisions: RouteDecisions
  readonly #afterSync: AfterSync
  readonly #history = new PassHistory()
  readonly #stages: StageTimes
  readonly #inForce = new InForceTimes({
    isKnown: (key) => this.#intake.tracker.servicePort(key) !== undefined,
    hasFailures: () => this.hasRefusals,
  })
  /** The machine's own addresses. */
  #machine: readonly IpAddress[] = []
  #isMachineCurrent = false
  #hasReleasedPorts = false
  #settings: RelayRouteSettings | undefined
  #isInForce = false
  /** All objects were known at the last write. */
  #isComplete = false
  #isStopping = false

  constructor(options: UserspacePipelineOptions) {
    this.#options = options
    const stages = new StageTimes(options.clock)
    this.#stages = stages
    this.#questions = new KernelQuestions({ ...options, stages })
    this.#intake = new Intake(options)
    this.#table = new RelayTable({
      ...options,
      stages,
      relay: options.relay.relay,
      nextId: options.relay.nextId,
    })
    this.#shared = new SharedAddresses(options.family, options.warnings)
    this.#guard = new NatGuard({ ...options, stages, table: natGuardTables.userspace })
    this.#foreign = new ForeignAddresses({ ...options, stages })
    const onNeed = (address: IpAddress, isVip: boolean): void => this.#guard.put(address, isVip)
    this.#vips = new VipBindings({ ...options, stages, onNeed })
    this.#unserved = new UnservedPorts(options.family, options.warnings)
    const reports = new ConflictReports(options)
    const { tracker } = this.#intake
    this.#decisions = new RouteDecisions({
      ...options,
      tracker,
      reports,
      stages,
    })
    this.#afterSync = new AfterSync({
      ...options,
      tracker,
      reports,
      translation: undefined,
    })
  }

  apply(events: readonly ObjectEvent[]): boolean {
    return this.#intake.apply(
      events,
      (known) => this.#settings === undefined || (known === 'synced' && !this.#isComplete),
    )
  }

  applyNode({ routing, vipBinding, modeSettings, places }: NodeChange): boolean {
    if (places) this.#foreign.note()
    if (routing) this.#intake.tracker.markAll()
    if (vipBinding) this.#vips.requestRead()
    const isConcerned = places && this.#decisions.applyPlaces()
    return vipBinding || modeSettings || isConcerned || (places && this.#foreign.isRenewDue)
  }

  applyLinks(events: readonly LinkEvent[]): boolean {
    const isConcerned = this.#decisions.applyLinks(events)
    return events.filter((event) => this.#isConcerned(event)).length > 0 || isConcerned
  }

  stopSoon(): void {
    this.#isStopping = true
    this.#table.stopSoon()
    this.#vips.stopSoon()
  }

  get knowsObjects(): boolean {
    return this.#intake.known !== 'nothing'
  }

  get isInForce(): boolean {
    return this.#isInForce
  }

  get hasRefusals(): boolean {
    return this.#table.hasFailures || this.#vips.hasFailures
  }

  get isWatchable(): boolean {
    return this.#isComplete
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
    return { ...this.#intake.backlog.health, lacksRight: this.#table.lacksRight }
  }

  async readFlows(): Promise<Iterable<ServiceFlow>> {
    const { family, relay } = this.#options
    return flowsOf(await relay.relay.flows(family))
  }

  describe(decided: Route, isLost?: (frontend: Frontend) => boolean): readonly string[] {
    const settings = this.#settings
    return settings === undefined ? [] : this.#describe(this.#foreign.view(decided), { ...settings, isLost })
  }

  #describe(
    served: Route,
    settings: RelayRouteSettings & Parameters<typeof describeDesired>[2],
  ): readonly string[] {
    return describeDesired(served, compileRoute(served, settings), settings)
  }

  packetRules(): PacketRules | undefined {
    const { config, family, node } = this.#options
    return (
      this.#settings && {
        ...packetRules(this.#settings, localDetectorOf(config, family, node.facts)),
        guardOf: (address) => this.#guard.placeOf(address),
        listensAtAll: (protocol, port) => this.#table.listensAtAll(protocol, port),
        foreignHolder: (port, address) => this.#foreign.holderOf(port, address),
      }
    )
  }

  async differences(decided: Route): Promise<readonly string[] | undefined> {
    if (this.#settings === undefined) return undefined
    const served = this.#foreign.view(decided)
    const desired = { relayed: compileRoute(served, this.#settings), vips: [...addressesOf(served)] }
    return await differences(desired, this.#options.family, this.#options)
  }

  async close(): Promise<void> {
    await this.#afterSync.stop()
  }

  async runOnce(): Promise<number | undefined> {
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next run.
    const { known, backlog } = this.#intake
    if (known === 'nothing') return undefined
    const pass = new Pass({
      ...this.#options,
      events: this.#intake.beginRun(),
      stages: this.#stages,
      inForce: this.#inForce,
    })
    const isComplete = known === 'synced'
    const isNewlyComplete = isComplete && !this.#isComplete
    // Until now the routes that no service port needs have stayed.
    if (isNewlyComplete) this.#vips.requestRead()
    const isReading = this.#vips.isReadDue
    if (!(await this.#readKernel(isReading))) {
      backlog.waitOn()
      return retryMs
    }
    pass.reason = this.#reasonOf(isReading)
    this.#foreign.setMachine(this.#machine)
    this.#guard.setMachine(this.#machine)
    const claimed = await this.#claimDirty(pass)
    this.#intake.tracker.mark(await this.#foreign.renew())
    const routes = claimed + (this.#intake.tracker.hasDirty ? await this.#claimDirty(pass) : 0)
    this.#options.metrics.dirtyRoutes.inc(routes)
    if (this.#isStopping) return undefined
    this.#shared.report(this.#machine)
    const parts = [this.#table, this.#vips, this.#guard]
    if (routes > 0 || isNewlyComplete || parts.some(({ isWriteDue }) => isWriteDue))
      await this.#write(pass, { routes, isComplete })
    if (pass.isFailed) {
      backlog.waitOn()
      return Math.min(retryMs, this.#vips.nextInMs())
    }
    backlog.settle()
    this.#isComplete = isComplete
    // Without a right, what another mode left still serves: it stays as long as this mode is not in force.
    this.#isInForce ||= isComplete && !this.#table.lacksRight
    return Math.min(this.#table.nextInMs() ?? Infinity, this.#vips.nextInMs())
  }

  #reasonOf(isReading: boolean): PassReason {
    if (!this.#isComplete) return 'start'
    if (this.#intake.tracker.hasDirty) return 'change'
    return isReading ? 'reconcile' : 'retry'
  }

  /** Whether the event may change VIPs, node ports or near clients. */
  #isConcerned(event: LinkEvent): boolean {
    const { family, node } = this.#options
    const isAddress = event.kind === 'address'
    if (isAddress && event.family !== family) return false
    // When lo goes down, the kernel removes its routes, and reports only the link. With an address go the routes that have it as source.
    const isRouteConcerned = isAddress
      ? event.address === node.facts.addresses[family] || this.#vips.isNeeded(event.address)
      : event.kind === 'overrun' || event.name === 'lo'
    if (isRouteConcerned) this.#vips.requestRead()
    if (isAddress || event.kind === 'overrun') this.#isMachineCurrent = false
    return isRouteConcerned || !this.#isMachineCurrent
  }

  /** Reads the state of the kernel that a run needs. A change of the settings makes all routes dirty. False: it could not be read. */
  async #readKernel(isReading: boolean): Promise<boolean> {
    const subject = 'addresses of this machine'
    const read = await this.#questions.ask({ key: 'read addresses', subject }, () => this.#readMachine())
    if (read instanceof KernelError || !(await this.#renewSettings(read))) return false
    if (!this.#hasReleasedPorts) await this.#releasePorts()
    if (!isReading) return true
    await this.#guard.read()
    return await this.#vips.read()
  }

  /** Reads the machine's addresses if they may have changed. Throws KernelError. */
  async #readMachine(): Promise<readonly IpAddress[]> {
    if (this.#isMachineCurrent) return this.#machine
    // Before the reading: a change during it is read by the next run.
    this.#isMachineCurrent = true
    try {
      this.#machine = await machineAddresses(this.#options.family, this.#options)
      return this.#machine
    } catch (error) {
      this.#isMachineCurrent = false
      throw error
    }
  }

  /** Releases the ports that an earlier agent held for another mode: this mode listens on them. */
  async #releasePorts(): Promise<void> {
    const answer = await this.#questions.ask({ key: 'release ports', subject: 'held ports' }, () =>
      releaseUnwanted(this.#options, new Set()),
    )
    this.#hasReleasedPorts = !(answer instanceof KernelError)
  }

  /** False: the relay does not take its settings. */
  async #renewSettings(machine: readonly IpAddress[]): Promise<boolean> {
    const { family, config, node, relay } = this.#options
    const facts = node.facts
    const near = nearClients(machine, localDetectorOf(config, family, facts))
    const subject = 'settings of the relay'
    const nodePorts = { family, config, node: facts }
    const nodePortAddresses = nodePortSockets(nodePorts, machine)
    const set = await this.#questions.ask({ key: 'relay settings', subject }, () =>
      relay.configure(family, { near, nodePortAddresses }),
    )
    if (set instanceof KernelError) return false
    const settings: RelayRouteSettings = {
      nodePortAddresses,
      servesAllAddresses: areNodePortsEverywhere(nodePorts),
      nodeIP: facts.addresses[family],
    }
    if (isDeepStrictEqual(settings, this.#settings)) return true
    this.#settings = settings
    this.#intake.tracker.markAll()
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
        const served = decided && this.#foreign.admit(decided)
        if (decided === undefined) this.#foreign.forget(key)
        const desired = served && this.#settings && compileRoute(served, this.#settings)
        this.#table.claim(key, served, desired)
        this.#vips.claim(key, served?.service ?? '', served === undefined ? [] : [...addressesOf(served)])
        this.#afterSync.note(key, decided)
        this.#unserved.note(key, decided)
        this.#shared.note(key, decided)
      },
      isStopping: () => this.#isStopping,
    })
  }

  async #write(
    pass: Pass,
    { routes, isComplete }: { readonly routes: number; readonly isComplete: boolean },
  ): Promise<void> {
    const { metrics } = this.#options
    await this.#guard.write({ isComplete })
    // A listener needs its address, so the VIP is local first, and no longer than its listeners.
    await this.#table.write(pass, async () => await this.#vips.bind(pass))
    await this.#vips.unbind(pass, { keepsUnneeded: !isComplete })
    const sizes = { ...this.#table.sizes, vip: this.#vips.size }
    reportSizes(metrics, sizes)
    const fields = { routes, ...worldSize(this.#intake.tracker), ...sizes }
    this.#history.add(pass.end({ hasRefusals: this.hasRefusals, fields }))
    if (pass.isFailed) return
    const conflicts = this.#table.takeConflicts()
    await this.#afterSync.run({ conflicts, isComplete, machine: this.#machine })
  }
}
