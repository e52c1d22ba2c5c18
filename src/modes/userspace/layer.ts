// The relay's listeners and the VIPs of one family. They are one layer: a listener opens when its address is local, and the address
// stays local as long as its listeners.
import type { IpAddress } from '../../address.js'
import {
  type Claim,
  type FamilyContext,
  type FamilyFacts,
  type FamilyParts,
  type Layer,
  type LayerState,
  type Look,
  type Pass,
  type WriteOptions,
  type Written,
} from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import { type LinkEvent, natGuardTables, type Ports } from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import { addressesOf } from '../../routing/index.js'
import { type DesiredRoute, RelayTable, type SharedRelay } from '../../layers/relay/index.js'
import { releaseUnwanted } from '../../layers/shared/index.js'
import { NatGuard, type NatGuardOptions, VipBindings } from '../../layers/vips/index.js'
import type { UserspaceSettings } from './node-settings.js'
import { SharedAddresses } from './shared-addresses.js'
import { UnservedPorts } from './unserved-ports.js'

export interface UserspaceLayerOptions extends FamilyContext, FamilyParts {
  readonly relay: SharedRelay
  readonly ports: Ports
  readonly nftables: NatGuardOptions['nftables']
  readonly activeTables: NatGuardOptions['activeTables']
  /** Gets hints for the operator about the VIPs. */
  readonly hints: StateReporter
  /** This process may not bind lower ports; undefined: it may, or that is not known. */
  readonly firstFreePort: number | undefined
}

/** Time until a kernel or a relay that refused a whole request is asked again. */
const retryMs = 1000

export class UserspaceLayer implements Layer<UserspaceSettings, DesiredRoute> {
  readonly #options: UserspaceLayerOptions
  readonly table: RelayTable
  readonly guard: NatGuard
  readonly #vips: VipBindings
  readonly #unserved: UnservedPorts
  readonly #shared: SharedAddresses
  #machine: readonly IpAddress[] = []
  #hasReleasedPorts = false
  /** All objects are known. */
  #isSynced = false
  /** The last write failed. */
  #isFailed = false

  constructor(options: UserspaceLayerOptions) {
    this.#options = options
    this.table = new RelayTable({
      ...options,
      relay: options.relay.relay,
      nextId: options.relay.nextId,
    })
    this.#shared = new SharedAddresses(options.family, options.warnings)
    this.guard = new NatGuard({ ...options, table: natGuardTables.userspace })
    const onNeed = (address: IpAddress, isVip: boolean): void => this.guard.put(address, isVip)
    this.#vips = new VipBindings(options, onNeed)
    this.#unserved = new UnservedPorts(options.family, options.warnings)
  }

  async open(known: 'listed' | 'synced'): Promise<void> {
    // Until now the routes that no service port needs have stayed.
    if (known === 'synced' && !this.#isSynced) this.#vips.requestRead()
    this.#isSynced = known === 'synced'
    if (this.#hasReleasedPorts) return
    // Ports that an earlier agent held for another mode: this mode listens on them.
    const question = { key: 'release ports', subject: 'held ports' }
    const answer = await this.#options.questions.ask(question, () =>
      releaseUnwanted(this.#options, new Set()),
    )
    this.#hasReleasedPorts = !(answer instanceof KernelError)
  }

  async look(): Promise<Look> {
    // Nothing is written before the first reading: it shows the bindings of a former run.
    if (!this.#vips.isReadDue) return this.#vips.isAdopted ? 'none' : 'failed'
    await this.guard.read()
    return (await this.#vips.read()) ? 'full' : 'failed'
  }

  async configure({ near, nodePortAddresses }: UserspaceSettings, facts: FamilyFacts): Promise<boolean> {
    const { family, relay } = this.#options
    this.#machine = facts.machine
    this.guard.setMachine(facts.machine)
    const question = { key: 'relay settings', subject: 'settings of the relay' }
    const set = await this.#options.questions.ask(question, () =>
      relay.configure(family, { near, nodePortAddresses }),
    )
    return !(set instanceof KernelError)
  }

  claim(key: ServicePortKey, claim: Claim<DesiredRoute> | undefined): void {
    const { decided, served, desired } = claim ?? {}
    const service = served?.service ?? ''
    this.table.claim(key, service, desired)
    this.#vips.claim(key, service, served === undefined ? [] : [...addressesOf(served)])
    this.#unserved.note(key, decided)
    this.#shared.note(key, decided)
  }

  async write(pass: Pass, { isComplete }: WriteOptions): Promise<Written> {
    this.#shared.report(this.#machine)
    await this.guard.write({ isComplete })
    await this.table.write(pass, async () => await this.#vips.bind(pass))
    await this.#vips.unbind(pass, { keepsUnneeded: !isComplete })
    this.#isFailed = pass.isFailed
    return {
      isComplete: !pass.isFailed,
      sizes: { ...this.table.sizes, vip: this.#vips.size },
    }
  }

  noteVipBinding(): boolean {
    this.#vips.requestRead()
    return true
  }

  /** When lo goes down, the kernel removes its routes, and reports only the link. With an address go the routes that have it as source. */
  noteLinks(events: readonly LinkEvent[]): boolean {
    const isConcerned = events.some((event) => this.#changesRoutes(event))
    if (isConcerned) this.#vips.requestRead()
    return isConcerned
  }

  #changesRoutes(event: LinkEvent): boolean {
    const { family, node } = this.#options
    if (event.kind !== 'address') return event.kind === 'overrun' || event.name === 'lo'
    if (event.family !== family) return false
    return event.address === node.facts.addresses[family] || this.#vips.isNeeded(event.address)
  }

  stopSoon(): void {
    this.table.stopSoon()
    this.#vips.stopSoon()
  }

  get state(): LayerState {
    const { table } = this
    const parts = [table, this.#vips, this.guard]
    // NB: the objects that a refused batch was for stay due: without this time, pass would follow pass.
    const tableInMs = this.#isFailed ? retryMs : table.nextInMs()
    return {
      isWriteDue: this.#isFailed || parts.some(({ isWriteDue }) => isWriteDue),
      isBehind: this.#isFailed,
      hasRefusals: table.hasFailures || this.#vips.hasFailures,
      nextInMs: Math.min(tableInMs ?? Infinity, this.#vips.nextInMs()),
      lacksRight: table.lacksRight,
    }
  }
}
