import type { IpFamily } from '../../../address.js'
import { Holdings, ObjectTable } from '../../../engine/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import { type FrontendChange, type FrontendConflict, FrontendOwners } from '../../../routing/index.js'
import type { DesiredRoute } from '../compile/desired.js'
import { type NftSchema, schemaOf } from '../compile/schema.js'
import type { NfSet } from '../../../kernel/index.js'
import type { ElementOwner } from './element-batch.js'
import { FrontendEntry, HeldEntry, type WantedFrontend } from './entries.js'
import { packFrontend } from './frontend-state.js'
import { type PackedBytes, Packer } from './packed.js'

const nothing: DesiredRoute = { frontends: [], hairpins: [] }

/** The shared elements of one set. */
export interface HeldSet {
  readonly set: NfSet
  readonly entries: ObjectTable<PackedBytes, HeldEntry>
}

/**
 * The desired and the acknowledged elements of the routes of one family. Work is proportional to the changes. It keeps some strings
 * per frontend, and no object per element of a frontend.
 */
export class NftLedger {
  readonly schema: NftSchema
  readonly packer: Packer
  readonly frontends = new ObjectTable<PackedBytes, FrontendEntry>()
  /** Held by the frontends on the address. */
  readonly clusterIPs: HeldSet
  /** Held by routes. */
  readonly hairpins: HeldSet
  readonly #owners = new FrontendOwners<WantedFrontend>()
  readonly #hairpinsOf = new Holdings<ServicePortKey, HeldEntry>()
  #endpoints = 0

  constructor(family: IpFamily) {
    this.schema = schemaOf(family)
    this.packer = new Packer(family)
    this.clusterIPs = { set: this.schema.clusterIPs, entries: new ObjectTable() }
    this.hairpins = { set: this.schema.hairpinConnections, entries: new ObjectTable() }
  }

  get heldSets(): readonly HeldSet[] {
    return [this.clusterIPs, this.hairpins]
  }

  /** Replaces all claims of the route; undefined releases it. */
  claim(route: ServicePortKey, service: string, desired: DesiredRoute | undefined): void {
    const { frontends, hairpins } = desired ?? nothing
    const wanted: WantedFrontend[] = []
    for (const each of frontends) {
      const { frontend, isClusterIP } = each
      if (frontend.kind === 'health-check') continue
      const id = this.packer.frontend(frontend)
      wanted.push({ frontend, id, isClusterIP, state: packFrontend(this.packer, each) })
    }
    for (const change of this.#owners.claim(route, service, wanted)) this.#change(change)
    const held = hairpins.map((hairpin) => this.#hold(this.hairpins, this.packer.hairpin(hairpin)))
    for (const entry of this.#hairpinsOf.replace(route, held)) this.#release(this.hairpins, entry)
  }

  /** The service ports that need the object: the owner of a frontend, or the holders of a shared element. Walks all holders. */
  routesOf(owner: ElementOwner): readonly ServicePortKey[] {
    if (owner.kind === 'frontend') return this.#ownersOf([owner])
    const hairpins = this.#hairpinsOf.holdersOf(owner)
    if (hairpins.length > 0) return hairpins
    const isHolder = ({ id, wanted }: FrontendEntry): boolean =>
      wanted?.isClusterIP === true && id.startsWith(owner.id)
    return this.#ownersOf([...this.frontends.values()].filter(isHolder))
  }

  takeConflicts(): readonly FrontendConflict[] {
    return this.#owners.takeConflicts()
  }

  /** Numbers of objects that routes claim, by kind. */
  get sizes(): { readonly frontend: number; readonly endpoint: number } {
    return { frontend: this.#owners.size, endpoint: this.#endpoints }
  }

  #ownersOf(entries: readonly FrontendEntry[]): readonly ServicePortKey[] {
    const routes = entries.map(({ wanted }) => wanted && this.#owners.ownerOf(wanted.frontend))
    return [...new Set(routes.filter((route) => route !== undefined))]
  }

  #change({ before: [former], after: [wanted] }: FrontendChange<WantedFrontend>): void {
    const id = (wanted ?? former)?.id
    if (id === undefined) return
    const { frontends, clusterIPs, packer } = this
    const entry = frontends.get(id) ?? frontends.add(new FrontendEntry(id))
    const address = id.slice(0, packer.addressBytes)
    if (wanted?.isClusterIP === true) this.#hold(clusterIPs, address)
    const held = former?.isClusterIP === true ? clusterIPs.entries.get(address) : undefined
    if (held !== undefined) this.#release(clusterIPs, held)
    this.#endpoints += endpointsOf(wanted) - endpointsOf(former)
    entry.wanted = wanted
    entry.dropLeftover()
    frontends.markDirty(entry)
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

function endpointsOf(wanted: WantedFrontend | undefined): number {
  return wanted === undefined ? 0 : wanted.state.count + wanted.state.shortCircuitCount
}
