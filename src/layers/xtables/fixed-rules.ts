// The rules of iptables mode beside the table of the Services, where x_tables live in nf_tables: chains that other programs expect,
// and jump to, in the tables nat and filter that all programs share.
import { isDeepStrictEqual } from 'node:util'
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import type { ChainNames, KnownObjects, Pass } from '../../engine/index.js'
import { BugError } from '../../errors.js'
import { type NftChange, type Xtables, xtHooks } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics, PacketTotals } from '../../metrics/index.js'
import { type ServicePortKey, servicePortName } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import type { FixedRules, NodeState } from '../nft-table/index.js'
import type { DesiredFrontend, Skeleton } from './desired.js'
import { chainNames } from './names.js'
import { differences } from './differences.js'
import { FixedChains } from './fixed-chains.js'
import { hasFormerOwner, type XtablesSettings } from './layer.js'
import { type CountedRules, PacketCounts } from './packet-counts.js'
import { type IptablesXtables, IptablesTables } from './tables.js'

/** Supplies the rules of a mode in the shared tables. All methods are pure. */
export interface FixedRuleSource<S> {
  settings(state: NodeState): S
  skeleton(settings: S): Skeleton
  /** The rules of the route that let its health check in. */
  healthCheck(route: Route, settings: S): readonly DesiredFrontend[]
  countedRules(settings: S): CountedRules
}

export interface XtablesFixedRulesOptions<S> {
  readonly family: IpFamily
  readonly source: FixedRuleSource<S>
  /** In flavour nft. */
  readonly tables: IptablesXtables
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /**
   * Makes the kernel route packets from loopback addresses to endpoints. Called after the write of the guard. It reports its own
   * problems.
   */
  readonly routeLocalnet: () => Promise<void>
  /** Chains that any mode may have left. */
  readonly formerChains: ChainNames
}

interface State {
  readonly chains: FixedChains
  readonly tables: IptablesTables
}

/** The fixed rules of one family, and the rules that let health checks in. */
export class XtablesFixedRules<S extends XtablesSettings> implements FixedRules {
  readonly #options: XtablesFixedRulesOptions<S>
  readonly #packets: PacketCounts
  #opened: State | undefined
  #settings: S | undefined
  /** Names of the service ports with a health check. */
  readonly #names = new Map<ServicePortKey, string>()
  #isInForce = false
  /** Chains of a former owner are removed. */
  #hasTakenOver = false
  #isAfterTable = false
  #mayDiffer = false
  #isLocalhostDue = false

  constructor(options: XtablesFixedRulesOptions<S>) {
    this.#options = options
    this.#packets = new PacketCounts(options.tables.filter)
  }

  async open(known: Exclude<KnownObjects, 'nothing'>): Promise<void> {
    if (this.#opened !== undefined) return
    const { tables } = this.#options
    this.#isAfterTable = await hasRules(tables.nat, chainNames.postrouting)
    const chains = new FixedChains({
      isBeside: (await isServing(tables)) || (known === 'listed' && (await hasFormerOwner(tables))),
    })
    const portNameOf = (key: ServicePortKey): string | undefined => this.#names.get(key)
    this.#opened = { chains, tables: new IptablesTables({ ...this.#options, source: chains, portNameOf }) }
  }

  setNode(state: NodeState): void {
    const { source } = this.#options
    const settings = source.settings(state)
    if (isDeepStrictEqual(settings, this.#settings)) return
    this.#settings = settings
    this.#isLocalhostDue = settings.localhostNodePorts
    this.#state.chains.setSkeleton(source.skeleton(settings))
  }

  claim(key: ServicePortKey, served: Route | undefined): void {
    const { chains, tables } = this.#state
    const { source } = this.#options
    const hasCheck = served !== undefined && served.healthCheckNodePort !== 0
    if (!hasCheck && !this.#names.has(key)) return
    const desired = hasCheck && this.#settings ? source.healthCheck(served, this.#settings) : []
    chains.claim(key, desired)
    tables.noteClaim(key)
    if (hasCheck) this.#names.set(key, servicePortName(served))
    else this.#names.delete(key)
  }

  dueRoutes(): readonly ServicePortKey[] {
    return this.#state.tables.dueRoutes()
  }

  async differences(): Promise<readonly string[]> {
    return await differences({ chains: [] }, this.#options.tables)
  }

  noteChanges(changes: readonly NftChange[]): boolean {
    const isConcerned = changes.some((change) => this.#isAbout(change))
    this.#mayDiffer ||= isConcerned
    return isConcerned
  }

  async look(kind: 'partial' | 'full'): Promise<boolean> {
    if (this.#opened === undefined || (kind === 'partial' && !this.#mayDiffer)) return false
    this.#mayDiffer = false
    return await this.#opened.tables.look('full')
  }

  async write(pass: Pass, { isComplete }: { readonly isComplete: boolean }): Promise<boolean> {
    const { chains, tables } = this.#state
    const mayPrune = isComplete && !chains.isBeside
    const isWritten = (await tables.write(pass, { mayPrune })) !== undefined
    this.#isInForce ||= isWritten
    this.#isAfterTable &&= !isWritten
    this.#hasTakenOver ||= isWritten && mayPrune
    if (isWritten && this.#isLocalhostDue) {
      this.#isLocalhostDue = false
      await this.#options.routeLocalnet()
    }
    return isWritten
  }

  async takeOver(pass: Pass): Promise<boolean> {
    if (this.#hasTakenOver) return true
    const { chains, tables } = this.#state
    chains.standAlone()
    tables.pruneSoon()
    return await this.write(pass, { isComplete: true })
  }

  get isAfterTable(): boolean {
    return this.#isAfterTable
  }

  get isInForce(): boolean {
    return this.#isInForce
  }

  get isBehind(): boolean {
    return this.#opened?.tables.isBehind !== false
  }

  get isWriteDue(): boolean {
    return this.#opened?.tables.isWriteDue === true
  }

  nextInMs(): number | undefined {
    return this.#opened?.tables.nextInMs()
  }

  async countPackets(): Promise<PacketTotals> {
    const { source } = this.#options
    // Otherwise the rules in these places may belong to another program.
    const isOurs = this.#hasTakenOver && this.#opened?.tables.isBehind === false
    return await this.#packets.read(isOurs && this.#settings ? source.countedRules(this.#settings) : {})
  }

  get #state(): State {
    if (this.#opened === undefined) throw new BugError('a call before open()')
    return this.#opened
  }

  /** Another program may have changed a chain of ours, or a chain with a jump to one. */
  #isAbout(change: NftChange): boolean {
    if (change.kind === 'overrun') return true
    return change.objects.some(({ family, table, kind, name }) => {
      if (family !== this.#options.family || (table !== 'nat' && table !== 'filter')) return false
      // An update may be a chain of ours with another name, of which the event has only the new one.
      if (kind === 'table' || kind === 'chain-update') return true
      return name.startsWith('KUBE-') || xtHooks[table].some((hook) => hook === name)
    })
  }
}

/** Whether the chains of another program serve in nat: ours have no rules there. Throws KernelError. */
async function isServing({ nat }: IptablesXtables): Promise<boolean> {
  return await hasRules(nat, chainNames.services, chainNames.nodePorts)
}

/** Whether one of the chains has rules. Throws KernelError. */
async function hasRules(table: Pick<Xtables, 'packets'>, ...chains: readonly string[]): Promise<boolean> {
  return [...(await table.packets(chains))].some(({ length }) => length > 0)
}
