import { isDeepStrictEqual } from 'node:util'
import { hasAddress, type IpAddress, type IpFamily } from '../../address.js'
import type { IpvsConfig } from '../../config/index.js'
import { KernelError } from '../../errors.js'
import type { Frontend, Route } from '../../routing/index.js'
import type { EventRecorder } from '../../event.js'
import type { Ipvs, VirtualServerKey, XtFlavour } from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import { IpsetTable } from './tables/ipset-table.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey, Tracker } from '../../model/index.js'
import { compileRoute, type IpvsModeSettings, needsMark } from './compile/compile.js'
import type { DesiredVirtualServer } from './compile/desired.js'
import { describeServers } from './describe.js'
import { differences } from './differences.js'
import { packetRules } from './packet-rules.js'
import { forbiddingSets, type SetKey, sourceKeepingSets } from './compile/sets.js'
import type { SchedulingSettings } from './compile/scheduling.js'
import { localDetectorOf, nodePortAddressesOf, type NodeFacts } from '../../node/index.js'
import type { Clock } from '../../clock.js'
import { type ConflictReports, type TrafficConfig } from '../../engine/index.js'
import { AfterSync, type AfterSyncPart } from '../../layers/shared/index.js'
import { IpvsChains, type IpvsChainsOptions } from './chains.js'
import { IpvsMarks } from './marks.js'
import { IpvsSets } from './sets.js'
import {
  type HealthCheckListeners,
  KernelQuestions,
  type ModeKernel,
  type PacketRules,
  type Pass,
  type StageTimes,
} from '../../engine/index.js'
import { machineAddresses } from '../../host/index.js'

export interface IpvsPoliciesOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig & { readonly ipvs: Pick<IpvsConfig, 'markMask'> }
  readonly kernel: IpvsChainsOptions['kernel'] &
    Pick<ModeKernel, 'ipset' | 'nftables' | 'conntrack' | 'links' | 'routes' | 'ports'>
  readonly flavour: XtFlavour
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly tracker: Tracker
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly listeners: HealthCheckListeners
  /** Gets the conflicts of frontends. */
  readonly reports: ConflictReports
  readonly events: EventRecorder
  /** Further work after each sync. Absent: none. */
  readonly localhostNodePorts?: AfterSyncPart | undefined
  /** Counts the waits for the kernel as such a stage of the pass. Absent: nothing counts them. */
  readonly stages?: StageTimes
}

/** Settings of the node that routes depend on. */
type NodeSettings = Omit<IpvsModeSettings, keyof SchedulingSettings>

/** Loopback and link-local addresses: the kernel itself gives them to interfaces, and no router forwards packets to them. */
const notTheNodes = /^(?:127\.|::1$|fe[89ab])/u

/**
 * The parts of ipvs mode except virtual servers: sets, fixed chains and marks, which give traffic policies the meaning that they
 * have in iptables mode; flows that outlive their endpoints; health checks of Services.
 */
export class IpvsPolicies {
  readonly #options: IpvsPoliciesOptions
  readonly #questions: KernelQuestions
  readonly #table: IpsetTable
  readonly #sets: IpvsSets
  readonly #chains: IpvsChains
  readonly #marks: IpvsMarks
  readonly #afterSync: AfterSync
  #machine: readonly IpAddress[] = []
  #isMachineKnown = false
  #node: NodeSettings | undefined
  /** The facts that `renew` took in last. */
  #facts: NodeFacts | undefined
  /** The settings of the last `compile`. */
  #settings: { readonly of: SchedulingSettings; readonly all: IpvsModeSettings } | undefined

  constructor(options: IpvsPoliciesOptions) {
    const { family, config, kernel } = options
    this.#options = options
    this.#questions = new KernelQuestions(options)
    this.#table = new IpsetTable(family, config.ipvs.markMask)
    const setKernel = { ipset: kernel.ipset, nftables: kernel.nftables }
    this.#sets = new IpvsSets({ ...options, ...setKernel, table: this.#table })
    this.#chains = new IpvsChains(options)
    this.#marks = new IpvsMarks({
      ...options,
      markMask: config.ipvs.markMask,
      masqueradeMark: 2 ** config.iptables.masqueradeBit,
      table: this.#table,
    })
    this.#afterSync = new AfterSync({
      ...options,
      translation: {
        ...options,
        ...kernel,
        nodePortAddresses: async () => this.#node?.nodePortAddresses ?? [],
      },
    })
  }

  /** This machine's addresses, as last read. */
  get machine(): readonly IpAddress[] {
    return this.#machine
  }

  /** The addresses of the machine changed: the next run reads them. */
  noteAddresses(): void {
    this.#isMachineKnown = false
  }

  /** Whether `renew` may find a change. */
  get isRenewDue(): boolean {
    return !this.#isMachineKnown || this.#options.node.facts !== this.#facts
  }

  /**
   * Takes in the facts about the node. `changed`: all routes are to be compiled again. `failed`: the machine's addresses were never
   * read, and nothing can be compiled. If a later reading fails, the former addresses stay in force.
   */
  async renew(): Promise<'same' | 'changed' | 'failed'> {
    if (!(await this.#readAddresses())) return 'failed'
    const { family, config, node } = this.#options
    this.#facts = node.facts
    this.#chains.set({
      family,
      masqueradeMark: 2 ** config.iptables.masqueradeBit,
      masqueradeAll: config.iptables.masqueradeAll,
      localDetector: localDetectorOf(config, family, node.facts),
    })
    const settings = this.#nodeSettings()
    if (isDeepStrictEqual(settings, this.#node)) return 'same'
    this.#node = settings
    this.#settings = undefined
    this.#table.want(
      this,
      settings.nodePortAddresses.map((address) => ({ set: 'nodePortIPs', entry: { address } })),
    )
    return 'changed'
  }

  /** Compares sets and chains of the kernel with the desired ones. False: the sets could not be read. */
  async read(options: { readonly keepLeftovers: boolean }): Promise<boolean> {
    await this.#chains.compare()
    return await this.#sets.read(options)
  }

  /** False: the sets were not read yet, and nothing can be compiled. */
  get isAdopted(): boolean {
    return this.#table.isAdopted
  }

  /** Rules or sets are to be written, even if no other work is due. */
  get isWriteDue(): boolean {
    return this.#chains.isWriteDue || this.#sets.isRetryDue
  }

  /** Table mangle marks the connections to VIPs that are to be masqueraded: they need no chain of table nat. */
  get isMarking(): boolean {
    return !this.#chains.isWriteDue
  }

  /** Whether a set proves that a virtual server is ours. */
  marksOurs(server: VirtualServerKey): boolean {
    return this.#table.marksOurs(server, (address) => hasAddress(this.#machine, address))
  }

  /** Whether a set names the address as a VIP. */
  marksVip(address: IpAddress): boolean {
    return this.#table.marksVip(address)
  }

  /** Compiles the route into virtual servers and set entries; only after `renew`. */
  compile(route: Route, scheduling: SchedulingSettings): readonly DesiredVirtualServer[] {
    this.#afterSync.note(route.key, route)
    const settings = this.#settingsFor(scheduling)
    if (!needsMark(route)) {
      this.#marks.release(route.key)
      return compileRoute(route, settings, undefined)
    }
    const frontends = (): readonly VirtualServerKey[] =>
      compileRoute(route, settings, undefined).map(({ key }) => key)
    return compileRoute(route, settings, this.#marks.take(route, frontends))
  }

  /** The kernel objects of the route for people, with its present mark; empty before the first `renew`. */
  describe(
    route: Route,
    scheduling: SchedulingSettings,
    isLost?: (frontend: Frontend) => boolean,
  ): readonly string[] {
    return describeServers(this.present(route, scheduling), isLost)
  }

  /** The virtual servers of the route with its present mark, without a change of any kind; none before the first `renew`. */
  present(route: Route, scheduling: SchedulingSettings): readonly DesiredVirtualServer[] {
    if (this.#node === undefined) return []
    const mark = needsMark(route) ? this.#marks.markOf(route.key) : undefined
    return compileRoute(route, { ...scheduling, ...this.#node }, mark)
  }

  /** undefined before the first `renew`. */
  packetRules(): PacketRules | undefined {
    const { family, config, node, localhostNodePorts } = this.#options
    if (this.#node === undefined) return undefined
    const { nodePortAddresses, nodeIP } = this.#node
    return packetRules({
      nodePortAddresses,
      nodeIP,
      localDetector: localDetectorOf(config, family, node.facts),
      masqueradeAll: config.iptables.masqueradeAll,
      relayedLoopback: localhostNodePorts?.listensOn,
      marks: {
        mask: config.ipvs.markMask,
        masqueradeMark: 2 ** config.iptables.masqueradeBit,
        of: (key) => this.#marks.answerFor(key),
      },
    })
  }

  /** As `Pipeline.differences`. */
  async differences(
    route: Route,
    scheduling: SchedulingSettings,
    ipvs: Pick<Ipvs, 'read'>,
  ): Promise<readonly string[] | undefined> {
    if (this.#node === undefined) return undefined
    const { ipset, routes } = this.#options.kernel
    return await differences(this.present(route, scheduling), { ipvs, ipset, routes })
  }

  /**
   * Avoids marks for which another program has a virtual server. Returns the service ports to compile again: their mark changed, or
   * they can have one now.
   */
  renewMarks(foreign: ReadonlySet<number>): readonly ServicePortKey[] {
    return this.#marks.renew(foreign)
  }

  /** The service port was removed. */
  forget(key: ServicePortKey): void {
    this.#marks.release(key)
    this.#afterSync.note(key, undefined)
  }

  /**
   * Whether a virtual server of the kernel may be changed before anything else: its Service has endpoints that serve, and clients
   * reach them by the present sets and rules. If these keep the source of packets from outside, an endpoint on another node would
   * answer directly to the client, past this node.
   */
  isServable(entry: Entry): boolean {
    const { wanted } = entry
    if (wanted === undefined || wanted === entry.acknowledged || !entry.isServing) return false
    const isIn = (sets: ReadonlySet<SetKey>): boolean => wanted.entries.some(({ set }) => sets.has(set))
    return !isIn(forbiddingSets) && (isIn(sourceKeepingSets) || !this.#table.keepsSource(entry.key))
  }

  /** Runs before these virtual servers by mark are made: their set entries prove that they are ours. False: something is missing. */
  async admitMarks(entries: readonly Entry[], pass: Pass): Promise<boolean> {
    this.#want(entries)
    return await this.#sets.add(pass)
  }

  /**
   * Writes sets, their entries and chains. Runs before virtual servers are made, and before those are changed that are not
   * `isServable`. A Service that loses its last endpoint is refused before IPVS stops serving it. The refusal of a Service that got
   * its first endpoint ends before the chains are written. False: something is missing.
   */
  async admit(entries: readonly Entry[], pass: Pass): Promise<boolean> {
    this.#want(entries)
    const isComplete = (await this.#sets.add(pass)) && (await this.#sets.permit(pass))
    this.#chains.leaveOut(this.#sets.gaps)
    return (await this.#chains.write(pass, { isComplete: false })) && isComplete
  }

  /**
   * Removes unwanted set entries, after IPVS has everything: if the process dies before, a set entry still proves that a remaining
   * virtual server is ours. `isComplete`: all objects are in force; only then flows and health checks follow. False: something is
   * not written.
   */
  async settle(
    entries: readonly Entry[],
    { pass, isComplete }: { readonly pass: Pass; readonly isComplete: boolean },
  ): Promise<boolean> {
    for (const entry of entries) {
      const { acknowledged, isStale, wanted } = entry
      if (wanted === undefined && acknowledged === undefined && !isStale) this.#table.want(entry, [])
    }
    const isDiscarded = await this.#sets.discard(pass)
    if (isDiscarded) this.#marks.settle()
    if (!isComplete) return isDiscarded
    const isWritten = await this.#chains.write(pass, { isComplete: true })
    if (isWritten) await this.#sets.destroyFormer()
    // The applier reports conflicts.
    await this.#afterSync.run({ conflicts: [], isComplete: true, machine: this.#machine })
    return isDiscarded && isWritten
  }

  dropLeftovers(): void {
    this.#table.dropLeftovers()
  }

  /** Milliseconds until a set is retried; undefined: none is refused. */
  nextInMs(): number | undefined {
    return this.#sets.nextInMs()
  }

  /** Whether a table differs from our last write; it is due to be written then. `cheap` misses some changes (`Xtables.check`). */
  async findsOtherRules(look: 'cheap' | 'full'): Promise<boolean> {
    const areDue = look === 'full' ? await this.#chains.compare() : await this.#chains.check()
    if (areDue) this.#afterSync.recheckFlows()
    return areDue
  }

  /**
   * Whether sets, or their numbers of entries, differ from the acknowledged ones; false before the first reading; undefined: the
   * kernel did not answer.
   */
  async findsOtherSets(): Promise<boolean | undefined> {
    return this.#table.isAdopted && (await this.#sets.findsDrift())
  }

  async close(): Promise<void> {
    await this.#afterSync.stop()
  }

  #want(entries: readonly Entry[]): void {
    for (const entry of entries) if (entry.wanted !== undefined) this.#table.want(entry, entry.wanted.entries)
  }

  #settingsFor(scheduling: SchedulingSettings): IpvsModeSettings {
    if (this.#settings?.of !== scheduling) {
      const node = this.#node ?? this.#nodeSettings()
      this.#settings = { of: scheduling, all: { ...scheduling, ...node } }
    }
    return this.#settings.all
  }

  #nodeSettings(): NodeSettings {
    const { family, config, node } = this.#options
    const own = this.#machine.filter((address) => !notTheNodes.test(address))
    const named = nodePortAddressesOf({ family, config, node: node.facts }, own)
    return {
      nodePortAddresses: named === 'all' ? own : named,
      nodeAddresses: new Set(own),
      nodeIP: node.facts.addresses[family],
      markMask: config.ipvs.markMask,
      masqueradeMark: 2 ** config.iptables.masqueradeBit,
    }
  }

  /** False: the addresses could not be read, and were never read before. */
  async #readAddresses(): Promise<boolean> {
    if (this.#isMachineKnown) return true
    const { family, kernel } = this.#options
    const machine = await this.#questions.ask(
      { key: 'addresses', subject: 'addresses of this machine' },
      async () => await machineAddresses(family, kernel),
    )
    if (machine instanceof KernelError) return this.#node !== undefined
    this.#machine = machine
    this.#isMachineKnown = true
    return true
  }
}
