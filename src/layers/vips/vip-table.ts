// The VIPs of one family: their bindings in the kernel, and the virtual servers that need them (docs/adr/0004).
import type { IpAddress, IpFamily } from '../../address.js'
import type { VipBinding } from '../../config/index.js'
import {
  viaductRouteProtocol,
  type BatchOutcome,
  type RouteOp,
  RouteCursor,
  type Routes,
  describeRouteOp,
} from '../../kernel/index.js'
import {
  type Confirmation,
  type Cut,
  type Drift,
  DriftCounter,
  type ObjectBatch,
  ObjectTable,
  confirmBatch,
  planBatch,
} from '../objects/index.js'
import type { OperationKind } from '../../engine/index.js'
import { type PackedAddress, PackedRoutes, type RouteState, hostAddresses } from './packed-bindings.js'
import {
  type Bindings,
  bindingKind,
  equalBindings,
  equalRoutes,
  unbound,
  Vip,
  type VipHolder,
  type VipPlace,
} from './vip.js'

/** Kinds of drift of bindings, as the metric viaduct_drift_total names them. */
type BindingDriftKind = 'binding-missing' | 'binding-changed' | 'binding-unexpected'

/** A reading of the kernel's bindings of VIPs. */
export interface VipReading {
  readonly place: VipPlace
  /** Host routes of the local table. */
  readonly routes: Uint8Array
  /** Addresses of the dummy device; empty without it. */
  readonly addresses: Uint8Array
  /** Whether the address is known as a VIP of Viaduct or kube-proxy, such as by a set. */
  readonly isMarkedVip: (address: IpAddress) => boolean
}

export type VipBatch = ObjectBatch<Vip, Bindings, RouteOp[]>
export type VipCut = Cut<VipBatch, Vip>

/** Greatest cost of a batch, in routes (`addressCost`). A stop waits for a batch, which must take well under a second. */
const maxBatchCost = 4096

/**
 * The metric of the routes of userspace mode: `VIAD` in ASCII. With the protocol it proves that a route is ours. Routes of ipvs mode have
 * the default metric. So the routes of both modes stand side by side while one mode follows the other.
 */
export const userspaceRouteMetric = 0x56494144

export interface VipTableOptions {
  readonly binding: VipBinding
  /** The metric of the routes. Absent: the kernel's default. */
  readonly metric?: typeof userspaceRouteMetric
  /** Learns when an address gets its first holder, and when it loses its last one. */
  readonly onNeed?: (address: IpAddress, isNeeded: boolean) => void
}

export class VipTable {
  readonly #binding: VipBinding
  readonly #metric: number | undefined
  readonly #onNeed: NonNullable<VipTableOptions['onNeed']>
  readonly #table = new ObjectTable<IpAddress, Vip>()
  #place: VipPlace = { loopbackIndex: 1, dummyIndex: undefined, preferredSource: undefined }
  #kind: ReturnType<typeof bindingKind>
  /** The route that each VIP gets at this place; one object for all. */
  #route: RouteState = { protocol: viaductRouteProtocol, preferredSource: undefined }
  #bound: Bindings = { route: this.#route, isOnDummy: false }
  /** Addresses that a foreign route or address made local, at the last reconcile. */
  #foreign: ReadonlySet<PackedAddress> = new Set()

  constructor({ binding, metric, onNeed = () => {} }: VipTableOptions) {
    this.#binding = binding
    this.#metric = metric
    this.#onNeed = onNeed
    this.#kind = bindingKind(this.#place, metric)
  }

  /** Idempotent for one holder. */
  need(address: IpAddress, holder: VipHolder): void {
    const vip = this.#vipOf(address)
    if (vip.holders.includes(holder)) return
    vip.holders = [...vip.holders, holder]
    if (vip.holders.length > 1) return
    this.#table.markDirty(vip)
    this.#onNeed(address, true)
  }

  release(address: IpAddress, holder: VipHolder): void {
    const vip = this.#table.get(address)
    if (vip === undefined || !vip.holders.includes(holder)) return
    vip.holders = vip.holders.filter((other) => other !== holder)
    if (vip.holders.length > 0) return
    this.#table.markDirty(vip)
    this.#onNeed(address, false)
  }

  isNeeded(address: IpAddress): boolean {
    return (this.#table.get(address)?.holders.length ?? 0) > 0
  }

  /** Whether the kernel has a binding of this address that is ours: a route, or an address of the dummy device. */
  carriesOurBinding(address: IpAddress): boolean {
    return this.#table.get(address)?.isAcknowledged ?? false
  }

  /** Whether the address is bound, or may be, without a holder: its removal was refused, not answered, or not sent yet. */
  isLeftBound(address: IpAddress): boolean {
    const vip = this.#table.get(address)
    return vip !== undefined && (vip.isAcknowledged || vip.isStale) && vip.holders.length === 0
  }

  /** Number of VIPs that are needed, or still bound. */
  get size(): number {
    return this.#table.size
  }

  get place(): VipPlace {
    return this.#place
  }

  /** The VIPs that may need work; each is returned once. */
  takeDirty(): readonly Vip[] {
    return this.#table.takeDirty()
  }

  get hasDirty(): boolean {
    return this.#table.dirty.size > 0
  }

  markDirty(address: IpAddress): void {
    this.#table.markDirty(this.#vipOf(address))
  }

  /** Makes needed VIPs local. */
  planBinds(vips: readonly Vip[]): VipCut {
    return this.#plan(vips, (vip) => this.#withBinding(vip))
  }

  /** Removes bindings that are not needed, and bindings of the other kind if the right one exists. */
  planUnbinds(vips: readonly Vip[]): VipCut {
    return this.#plan(vips, (vip) => this.#withoutSurplus(vip))
  }

  confirm(batch: VipBatch, outcome: BatchOutcome): Confirmation<Vip> {
    const confirmation = confirmBatch(this.#kind, batch, outcome)
    for (const { object } of batch.parts) this.#table.settle(object)
    return confirmation
  }

  /**
   * Enters every binding that is ours, and makes dirty the VIPs that need work. Every host address of the dummy device is ours. A
   * route on lo of our protocol and shape is ours if this process added or adopted it, if `isMarkedVip` says so, or if the address
   * is needed and the protocol is the current one. Any other route is foreign (docs/adr/0005).
   */
  adopt({ place, routes, addresses, isMarkedVip }: VipReading): Drift {
    const drift = new DriftCounter<BindingDriftKind>()
    this.#place = place
    this.#kind = bindingKind(place, this.#metric)
    this.#route = { protocol: viaductRouteProtocol, preferredSource: place.preferredSource }
    this.#bound = { route: this.#route, isOnDummy: false }
    const routeOf = this.#readRoutes(routes, isMarkedVip)
    const onDummy = new Set<Vip>()
    for (const address of hostAddresses(addresses)) onDummy.add(this.#vipOf(address))
    for (const vip of this.#table.values()) {
      const before = vip.acknowledged
      vip.acknowledged = this.#bindings(routeOf.get(vip), onDummy.has(vip))
      if (!vip.isStale) countDrift(vip, before, drift)
      // Dirty even without work for it: the pass then reports the recovery.
      else this.#table.markDirty(vip)
      vip.isStale = false
      if (this.#isDue(vip)) this.#table.markDirty(vip)
      this.#table.settle(vip)
    }
    return drift.counts
  }

  /** Our routes in a dump. The others are `#foreign` from then on, except the kernel's own routes to addresses of the dummy device. */
  #readRoutes(routes: Uint8Array, isMarkedVip: VipReading['isMarkedVip']): ReadonlyMap<Vip, RouteState> {
    const found = new Map<Vip, RouteState>()
    const foreign = new Set<PackedAddress>()
    const { loopbackIndex, dummyIndex } = this.#place
    const records = new PackedRoutes(routes, this.#route)
    const vips = new Map<PackedAddress, Vip>()
    if (records.length > 0) for (const vip of this.#table.values()) vips.set(vip.packedAddress, vip)
    for (let index = 0; index < records.length; index++) {
      const id = records.id(index)
      const vip = vips.get(id)
      const isNeeded = vip !== undefined && vip.holders.length > 0
      const isProven =
        vip?.acknowledged.route !== undefined ||
        (isNeeded && records.protocol(index) === viaductRouteProtocol)
      const isOurs =
        records.isLikeOurs(index, loopbackIndex, this.#metric) &&
        (isProven || isMarkedVip(records.address(index)))
      if (isOurs) found.set(vip ?? this.#vipOf(records.address(index)), records.state(index))
      else if (records.interfaceIndex(index) !== dummyIndex && !this.#isOfOtherMode(records, index))
        foreign.add(id)
    }
    this.#foreign = foreign
    return found
  }

  /** A route that the former mode left, and that goes when this mode is in force. */
  #isOfOtherMode(records: PackedRoutes, index: number): boolean {
    const metric = this.#metric === undefined ? userspaceRouteMetric : undefined
    return (
      records.protocol(index) === viaductRouteProtocol &&
      records.isLikeOurs(index, this.#place.loopbackIndex, metric)
    )
  }

  #vipOf(address: IpAddress): Vip {
    return this.#table.get(address) ?? this.#table.add(new Vip(address))
  }

  #plan(vips: readonly Vip[], targetOf: (vip: Vip) => Bindings): VipCut {
    const cut = planBatch(this.#kind, vips, { ops: [], limit: maxBatchCost, targetOf })
    for (const vip of vips.slice(0, vips.length - cut.rest.length)) this.#table.settle(vip)
    return cut
  }

  #bindings(route: RouteState | undefined, isOnDummy: boolean): Bindings {
    if (route === this.#route && !isOnDummy) return this.#bound
    return route === undefined && !isOnDummy ? unbound : { route, isOnDummy }
  }

  #withBinding(vip: Vip): Bindings {
    const { acknowledged, holders } = vip
    if (holders.length === 0) return acknowledged
    if (this.#foreign.size > 0 && this.#foreign.has(vip.packedAddress)) return acknowledged
    if (this.#binding === 'routes')
      return equalRoutes(this.#route, acknowledged.route)
        ? acknowledged
        : this.#bindings(this.#route, acknowledged.isOnDummy)
    const { dummyIndex } = this.#place
    if (acknowledged.isOnDummy || dummyIndex === undefined) return acknowledged
    return { route: acknowledged.route, isOnDummy: true }
  }

  #withoutSurplus({ acknowledged, holders }: Vip): Bindings {
    const { route, isOnDummy } = acknowledged
    const isNeeded = holders.length > 0
    const keepsRoute = isNeeded && (this.#binding === 'routes' || !isOnDummy)
    const keepsAddress = isNeeded && (this.#binding === 'addresses' || route === undefined)
    const canRemoveAddress = this.#place.dummyIndex !== undefined
    return this.#bindings(keepsRoute ? route : undefined, isOnDummy && (keepsAddress || !canRemoveAddress))
  }

  #isDue(vip: Vip): boolean {
    const { acknowledged } = vip
    return !(
      equalBindings(this.#withBinding(vip), acknowledged) &&
      equalBindings(this.#withoutSurplus(vip), acknowledged)
    )
  }
}

function countDrift(vip: Vip, before: Bindings, drift: DriftCounter<BindingDriftKind>): void {
  const { route, isOnDummy } = vip.acknowledged
  const isRouteLost = before.route !== undefined && route === undefined
  if (isRouteLost || (before.isOnDummy && !isOnDummy)) drift.add('binding-missing')
  else if (before.route !== undefined && !equalRoutes(before.route, route)) drift.add('binding-changed')
  else if (before.route === undefined && !before.isOnDummy && vip.isAcknowledged && vip.holders.length === 0)
    drift.add('binding-unexpected')
}

/**
 * The addresses that are not local to this node, a sentence each. The kernel lists all local host routes at once; those of addresses of
 * interfaces are among them. Throws KernelError.
 */
export async function missingVips(
  vips: readonly IpAddress[],
  family: IpFamily,
  routes: Pick<Routes, 'dumpLocalRoutes'>,
): Promise<readonly string[]> {
  if (vips.length === 0) return []
  const missing = new Set(vips)
  const present = new RouteCursor(await routes.dumpLocalRoutes(family))
  for (let index = 0; index < present.length && missing.size > 0; index++)
    missing.delete(present.address(index))
  return [...missing].map((vip) => `local route of ${vip} is missing`)
}

/** Operations on bindings of VIPs, as a pass counts and prints them. */
export const bindingOperations: OperationKind<RouteOp> = {
  name: 'routes',
  describe: describeRouteOp,
  isMetered: true,
}
