// The content of one family's table, desired and acknowledged.
import type { IpFamily } from '../../../address.js'
import type { Clock } from '../../../clock.js'
import { Holdings, ObjectTable } from '../../objects/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { DesiredFrontend, DesiredRoute } from '../compile/desired.js'
import { type NftSchema, schemaOf } from '../compile/schema.js'
import { compileStructure } from '../compile/structure.js'
import type { NftModeSettings } from '../compile/settings.js'
import type { NfSet, NfTableKey } from '../../../kernel/index.js'
import { ElementCounts } from './element-counts.js'
import { type ElementOwner, FrontendEntry, HeldEntry, type WantedFrontend } from './entries.js'
import { type FlagSet, flagSets } from './frontend-elements.js'
import { FormMoves } from './form-moves.js'
import type { FormerClients } from './former-clients.js'
import type { FrontendGroups } from './frontend-groups.js'
import { packFrontend } from './frontend-state.js'
import { OwnPorts } from './own-ports.js'
import { type PackedBytes, Packer } from './packed.js'
import { StaleParts } from './stale-parts.js'
import { addressElements, StaticSet } from './static-sets.js'
import { StructureState, type UnknownObjects } from './structure-state.js'
import { UsedValues } from './use.js'

const nothing: DesiredRoute = { frontends: [], own: undefined, hairpins: [] }

/** The shared elements of one set. */
export interface HeldSet {
  readonly set: NfSet
  readonly entries: ObjectTable<PackedBytes, HeldEntry>
}

/** Elements of a set that belong to no object. */
interface Strays {
  readonly set: NfSet
  readonly keys: readonly PackedBytes[]
}

/**
 * The content of one family's table: chains and sets (`structure`), sets that are written as a whole, and the elements of the routes. Work
 * is proportional to the changes. It keeps some strings per frontend, and no object per element of a frontend.
 */
export class TableContent {
  readonly schema: NftSchema
  readonly packer: Packer
  readonly flagSets: Readonly<Record<'services' | 'nodePorts', readonly FlagSet[]>>
  readonly table: NfTableKey
  readonly structure: StructureState
  readonly staleParts: StaleParts
  readonly nodePortIPs: StaticSet
  readonly serviceCidrs: StaticSet
  /** To be deleted, by the names of the sets. */
  readonly strays = new Map<string, Strays>()
  readonly counts = new ElementCounts()
  /** The directory of a comparison in progress; undefined: there is none. */
  groups: FrontendGroups | undefined
  readonly frontends = new ObjectTable<PackedBytes, FrontendEntry>()
  /** Held by the frontends on the address. */
  readonly clusterIPs: HeldSet
  /** Held by routes. */
  readonly hairpins: HeldSet
  /** The chains of single service ports. */
  readonly own: OwnPorts
  readonly moves: FormMoves
  /** Clients of a former owner of the table, until they are in sets of this one. */
  former: FormerClients | undefined
  readonly #frontendsOf = new Holdings<ServicePortKey, FrontendEntry>()
  readonly #hairpinsOf = new Holdings<ServicePortKey, HeldEntry>()
  #owned = 0
  #endpoints = 0
  readonly #use = new UsedValues()
  #settings: NftModeSettings | undefined
  #compiledFor: { readonly settings: NftModeSettings; readonly size: number } | undefined

  constructor(family: IpFamily, clock: Pick<Clock, 'now' | 'unixMs'>) {
    const schema = schemaOf(family)
    this.schema = schema
    this.packer = new Packer(family)
    this.flagSets = { services: flagSets(schema, false), nodePorts: flagSets(schema, true) }
    this.table = schema.table
    this.structure = new StructureState(schema)
    this.staleParts = new StaleParts(schema.table)
    this.nodePortIPs = new StaticSet(schema.nodePortIPs)
    this.serviceCidrs = new StaticSet(schema.serviceCidrs)
    this.clusterIPs = { set: schema.clusterIPs, entries: new ObjectTable() }
    this.hairpins = { set: schema.hairpinConnections, entries: new ObjectTable() }
    this.own = new OwnPorts({ family, schema, packer: this.packer, clock })
    this.moves = new FormMoves(clock)
  }

  get settings(): NftModeSettings | undefined {
    return this.#settings
  }

  set settings(settings: NftModeSettings) {
    this.#settings = settings
    const { nodePortAddresses } = settings
    const addresses = nodePortAddresses === 'all' ? [] : nodePortAddresses
    this.nodePortIPs.want(addressElements(this.schema.nodePortIPs, addresses))
  }

  /** Objects of the table that no rule and no element needs. */
  get unknown(): UnknownObjects {
    const { sets, chains, ...others } = this.structure.unknown
    const { own } = this
    return { ...others, sets: [...sets, ...own.unneededSets], chains: [...chains, ...own.unneededChains] }
  }

  /** Sets that are written as a whole. */
  get staticSets(): readonly StaticSet[] {
    return [this.nodePortIPs, this.serviceCidrs]
  }

  /** The kernel has a set of this name: what it is for is in use. */
  noteSet(name: string): void {
    this.#use.noteSet(this.schema, name)
  }

  /**
   * Compiles the structure for the settings, and for what the frontends have and want. `changed`: the frontends that may have changed
   * since the last call. A frontend is dirty from its change to the next write.
   */
  compile(changed: Iterable<FrontendEntry> = this.frontends.dirty): void {
    const settings = this.#settings
    if (settings === undefined) return
    const { packer } = this
    for (const { acknowledged, desired, isNodePort } of changed) {
      this.#use.note(acknowledged, isNodePort, packer)
      this.#use.note(desired, isNodePort, packer)
    }
    const { size } = this.#use
    if (this.#compiledFor?.settings === settings && this.#compiledFor.size === size) return
    this.#compiledFor = { settings, size }
    this.structure.wanted = compileStructure(settings, this.#use)
  }

  /** Compiles the structure for what is in use now, without what was in use before. Walks all frontends. */
  recompile(): void {
    this.#use.clear()
    this.#compiledFor = undefined
    this.compile(this.frontends.values())
  }

  get heldSets(): readonly HeldSet[] {
    return [this.clusterIPs, this.hairpins]
  }

  /** The kernel is about to be read for the first time. `keepLeftovers`: objects that no route wants stay until `dropLeftovers`. */
  beginReading(options: { readonly keepLeftovers: boolean }): void {
    this.frontends.beginReading(options)
    for (const { entries } of this.heldSets) entries.beginReading(options)
  }

  /** Objects of a former run that no route has claimed go: all objects are known. */
  dropLeftovers(): void {
    this.frontends.dropLeftovers()
    for (const { entries } of this.heldSets) entries.dropLeftovers()
  }

  /** Replaces all claims of the route; undefined releases it. */
  claim(route: ServicePortKey, desired: DesiredRoute | undefined): void {
    const { frontends, own, hairpins } = desired ?? nothing
    this.own.claim(route, own)
    const claimed = frontends.map((each) => this.#claim(route, each))
    for (const entry of this.#frontendsOf.replace(route, claimed))
      // The entry of another holder has moved.
      if (entry.wanted?.holder === route && !claimed.includes(entry)) this.#want(entry, undefined)
    const held = hairpins.map((hairpin) => this.#hold(this.hairpins, this.packer.hairpin(hairpin)))
    for (const entry of this.#hairpinsOf.replace(route, held)) this.#release(this.hairpins, entry)
  }

  /** The service ports that need the object: the owner of a frontend, or the holders of a shared element. Walks all holders. */
  routesOf(owner: ElementOwner): readonly ServicePortKey[] {
    if (owner.kind === 'frontend') return ownersOf([owner])
    if (owner.kind === 'own-port') return owner.wanted === undefined ? [] : [owner.wanted.holder]
    const hairpins = this.#hairpinsOf.holdersOf(owner)
    if (hairpins.length > 0) return hairpins
    const isHolder = ({ id, wanted }: FrontendEntry): boolean =>
      wanted?.isClusterIP === true && id.startsWith(owner.id)
    return ownersOf([...this.frontends.values()].filter(isHolder))
  }

  /** Numbers of objects that routes claim, by kind. */
  get sizes(): { readonly frontend: number; readonly endpoint: number } {
    return { frontend: this.#owned, endpoint: this.#endpoints }
  }

  #claim(holder: ServicePortKey, desired: DesiredFrontend): FrontendEntry {
    const { frontends, packer } = this
    const id = packer.frontend(desired.frontend)
    const entry = frontends.get(id) ?? frontends.add(new FrontendEntry(id))
    this.#want(entry, {
      holder,
      isClusterIP: desired.isClusterIP,
      state: packFrontend(packer, desired),
      endpoints: desired.backends.length + desired.shortCircuit.length,
    })
    return entry
  }

  #want(entry: FrontendEntry, wanted: WantedFrontend | undefined): void {
    const former = entry.wanted
    entry.wanted = wanted
    const wasClusterIP = former?.isClusterIP === true
    const isClusterIP = wanted?.isClusterIP === true
    if (isClusterIP && !wasClusterIP) this.#hold(this.clusterIPs, this.#addressOf(entry))
    if (wasClusterIP && !isClusterIP) {
      const held = this.clusterIPs.entries.get(this.#addressOf(entry))
      if (held !== undefined) this.#release(this.clusterIPs, held)
    }
    this.#owned += Number(wanted !== undefined) - Number(former !== undefined)
    this.#endpoints += (wanted?.endpoints ?? 0) - (former?.endpoints ?? 0)
    entry.dropLeftover()
    this.frontends.markDirty(entry)
  }

  #addressOf({ id }: FrontendEntry): PackedBytes {
    return id.slice(0, this.packer.addressBytes)
  }

  #hold({ entries }: HeldSet, id: PackedBytes): HeldEntry {
    const entry = entries.get(id) ?? entries.add(new HeldEntry(id))
    entry.holders++
    entry.dropLeftover()
    if (!entry.acknowledged) entries.markDirty(entry)
    return entry
  }

  #release({ entries }: HeldSet, entry: HeldEntry): void {
    entry.holders--
    if (entry.holders === 0) entries.markDirty(entry)
  }
}

/** The service ports that own these frontends, each once. */
function ownersOf(entries: readonly FrontendEntry[]): readonly ServicePortKey[] {
  const routes = entries.map(({ wanted }) => wanted?.holder)
  return [...new Set(routes.filter((route) => route !== undefined))]
}
