// Which VIPs are local, by what, and which of them acknowledged virtual servers need (docs/adr/0004).
import { type IpAddress, familyOf } from '../../../address.js'
import type { VipBinding } from '../../../config/index.js'
import { isExists, isNotFound } from '../../../errors.js'
import {
  hostPrefixLength,
  viaductRouteProtocol,
  type BatchOutcome,
  type InterfaceAddress,
  type LocalRoute,
  type OperationFailure,
  type RouteOp,
} from '../../../kernel/index.js'
import { type Confirmation, type Cut, type Failed, type Drift, DriftCounter } from '../../../engine/index.js'
import { type PackedAddress, packedAddressOf } from './packed.js'
import { PackedRoutes, type RouteState, hostAddresses } from './packed-bindings.js'

/** Where the bindings of one family go. Changes only at a reconcile. */
export interface VipPlace {
  readonly loopbackIndex: number
  /** undefined: this kernel has no dummy device. */
  readonly dummyIndex: number | undefined
  /** Source that the node itself uses towards VIPs; undefined: the kernel chooses. */
  readonly preferredSource: IpAddress | undefined
}

/** What a reading of the kernel says about VIPs. */
export interface VipReading {
  readonly place: VipPlace
  /** Host routes of the local table. */
  readonly routes: Uint8Array
  /** Those of the dummy device; empty without it. */
  readonly addresses: Uint8Array
  /** Whether a set of ours, or of kube-proxy's, says that the address is a VIP. */
  readonly isMarkedVip: (address: IpAddress) => boolean
}

/** Who needs a VIP; messages name it. */
export interface VipHolder {
  readonly service: string
}

/** One address that is a VIP of ours, or was. */
export interface Vip {
  readonly address: IpAddress
  readonly holders: readonly VipHolder[]
  /** What is acknowledged may be wrong: nothing is done before the next reconcile. */
  readonly isStale: boolean
}

class VipState implements Vip {
  readonly address: IpAddress
  holders: readonly VipHolder[] = []
  /** Our route, as acknowledged. */
  route: RouteState | undefined
  /** An address of the dummy device, as acknowledged. */
  isOnDummy = false
  isStale = false

  #id: PackedAddress | undefined

  constructor(address: IpAddress) {
    this.address = address
  }

  /** As a dump identifies it; made when first asked for. */
  get id(): PackedAddress {
    return (this.#id ??= packedAddressOf(this.address))
  }

  get isOurs(): boolean {
    return this.route !== undefined || this.isOnDummy
  }
}

interface Step {
  readonly vip: VipState
  readonly op: RouteOp
}

/** Operations for the kernel, each with its VIP. */
export interface VipBatch {
  readonly ops: readonly RouteOp[]
  readonly steps: readonly Step[]
}

export type VipCut = Cut<VipBatch, Vip>

/** A batch must leave a stop well under a second: 4,096 routes, or 512 addresses, each of which costs 200 µs and more. */
const maxBatchCost = 4096
const addressCost = 8

/** Which VIPs are bound, and by what; who needs them. */
export class VipTable {
  readonly #binding: VipBinding
  readonly #vips = new Map<IpAddress, VipState>()
  #place: VipPlace = { loopbackIndex: 1, dummyIndex: undefined, preferredSource: undefined }
  /** Local by somebody else's doing, at the last reconcile: an address or a route that is not ours. */
  #foreign: ReadonlySet<PackedAddress> = new Set()
  #dirty = new Set<VipState>()

  constructor(binding: VipBinding) {
    this.#binding = binding
  }

  /** Idempotent for one holder. */
  need(address: IpAddress, holder: VipHolder): void {
    const vip = this.#vipOf(address)
    if (vip.holders.includes(holder)) return
    vip.holders = [...vip.holders, holder]
    if (vip.holders.length === 1) this.#dirty.add(vip)
  }

  release(address: IpAddress, holder: VipHolder): void {
    const vip = this.#vips.get(address)
    if (vip === undefined || !vip.holders.includes(holder)) return
    vip.holders = vip.holders.filter((other) => other !== holder)
    if (vip.holders.length === 0) this.#dirty.add(vip)
  }

  isNeeded(address: IpAddress): boolean {
    return (this.#vips.get(address)?.holders.length ?? 0) > 0
  }

  /** The kernel says, and nobody else could have said it, that this address is a VIP of ours. */
  carriesOurBinding(address: IpAddress): boolean {
    return this.#vips.get(address)?.isOurs ?? false
  }

  /** Whether it is bound though nothing needs it, or may be: the kernel refused to unbind it, was not asked yet, or did not answer. */
  isLeftBound(address: IpAddress): boolean {
    const vip = this.#vips.get(address)
    return vip !== undefined && (vip.isOurs || vip.isStale) && vip.holders.length === 0
  }

  /** Those that are needed, or bound still. */
  get size(): number {
    return this.#vips.size
  }

  get place(): VipPlace {
    return this.#place
  }

  /** The VIPs that may need work; each is returned once. */
  takeDirty(): readonly Vip[] {
    const dirty = [...this.#dirty]
    this.#dirty = new Set()
    return dirty
  }

  get hasDirty(): boolean {
    return this.#dirty.size > 0
  }

  markDirty(address: IpAddress): void {
    this.#dirty.add(this.#vipOf(address))
  }

  /** Makes needed VIPs local. */
  planBinds(vips: readonly Vip[]): VipCut {
    return this.#plan(vips, (vip) => {
      const op = vip.holders.length > 0 ? this.#bindOp(vip) : undefined
      return op === undefined ? [] : [op]
    })
  }

  /** Takes away what is not needed, and the other kind of binding where the right one is there. */
  planUnbinds(vips: readonly Vip[]): VipCut {
    return this.#plan(vips, (vip) => this.#unbindOps(vip))
  }

  confirm(batch: VipBatch, outcome: BatchOutcome): Confirmation<Vip> {
    const failures = new Map(outcome.failures.map((failure) => [failure.index, failure]))
    const refusals: Failed<Vip>[] = []
    const surprises: Failed<Vip>[] = []
    for (const [index, { vip, op }] of batch.steps.entries()) {
      const failure = failures.get(index)
      const meaning = failure === undefined ? 'done' : meaningOf(op, failure)
      if (meaning === 'done') enterStep(vip, op)
      if (meaning === 'stale') vip.isStale = true
      if (meaning === 'refused' && failure !== undefined) refusals.push({ target: vip, error: failure.error })
      if (meaning === 'stale' && failure !== undefined) surprises.push({ target: vip, error: failure.error })
      this.#forgetUnused(vip)
    }
    return { refusals, surprises }
  }

  /** Nothing is known about the batch: it could not be sent, or not be accounted for. */
  disown(batch: VipBatch): void {
    for (const { vip } of batch.steps) vip.isStale = true
  }

  /**
   * Takes the kernel's word for every binding of ours, and makes dirty what is not as it should be.
   * A route on lo of our protocol and shape is ours when we added it, when `isMarkedVip` says so, or when the address is needed and
   * the protocol is the one of today; any other route is foreign (docs/adr/0005).
   */
  adopt({ place, routes, addresses, isMarkedVip }: VipReading): Drift {
    const drift = new DriftCounter()
    this.#place = place
    const formerRoutes = this.#adoptRoutes(routes, isMarkedVip)
    const onDummy = new Set<VipState>()
    for (const address of hostAddresses(addresses)) onDummy.add(this.#vipOf(address))
    for (const vip of this.#vips.values()) {
      const was = { route: formerRoutes.get(vip), isOnDummy: vip.isOnDummy }
      vip.isOnDummy = onDummy.has(vip)
      if (!vip.isStale) countDrift(vip, was, drift)
      // Whether it is well again is told by the pass that finds nothing to do.
      else this.#dirty.add(vip)
      vip.isStale = false
      this.#markWhereDue(vip)
    }
    return drift.counts
  }

  /** Sets every VIP's route and returns what each had before. */
  #adoptRoutes(
    routes: Uint8Array,
    isMarkedVip: VipReading['isMarkedVip'],
  ): ReadonlyMap<VipState, RouteState> {
    const former = new Map<VipState, RouteState>()
    for (const vip of this.#vips.values()) {
      if (vip.route !== undefined) former.set(vip, vip.route)
      vip.route = undefined
    }
    const foreign = new Set<PackedAddress>()
    const { loopbackIndex, dummyIndex, preferredSource } = this.#place
    const records = new PackedRoutes(routes, { protocol: viaductRouteProtocol, preferredSource })
    const vips = new Map<PackedAddress, VipState>()
    if (records.length > 0) for (const vip of this.#vips.values()) vips.set(vip.id, vip)
    for (let index = 0; index < records.length; index++) {
      const id = records.id(index)
      const vip = vips.get(id)
      const isNeeded = vip !== undefined && vip.holders.length > 0
      const isProven =
        (vip !== undefined && former.has(vip)) ||
        (isNeeded && records.protocol(index) === viaductRouteProtocol)
      const isOurs =
        records.isLikeOurs(index, loopbackIndex) && (isProven || isMarkedVip(records.address(index)))
      if (isOurs) (vip ?? this.#vipOf(records.address(index))).route = records.state(index)
      else if (records.interfaceIndex(index) !== dummyIndex) foreign.add(id)
    }
    this.#foreign = foreign
    return former
  }

  #vipOf(address: IpAddress): VipState {
    let vip = this.#vips.get(address)
    if (vip === undefined) {
      vip = new VipState(address)
      this.#vips.set(address, vip)
    }
    return vip
  }

  #plan(vips: readonly Vip[], opsFor: (vip: VipState) => readonly RouteOp[]): VipCut {
    const steps: Step[] = []
    let planned = 0
    let cost = 0
    for (const { address } of vips) {
      if (cost >= maxBatchCost) break
      planned++
      const vip = this.#vips.get(address)
      if (vip === undefined || vip.isStale) continue
      for (const op of opsFor(vip)) {
        steps.push({ vip, op })
        cost += 'address' in op ? addressCost : 1
      }
      this.#forgetUnused(vip)
    }
    return { batch: { steps, ops: steps.map(({ op }) => op) }, rest: vips.slice(planned) }
  }

  #bindOp(vip: VipState): RouteOp | undefined {
    if (this.#foreign.size > 0 && this.#foreign.has(vip.id)) return undefined
    const { loopbackIndex, dummyIndex, preferredSource } = this.#place
    if (this.#binding === 'addresses') {
      if (vip.isOnDummy || dummyIndex === undefined) return undefined
      return { op: 'add-address', address: hostAddress(vip.address, dummyIndex) }
    }
    const wanted = { protocol: viaductRouteProtocol, preferredSource }
    if (equalRoutes(wanted, vip.route)) return undefined
    const route = localRoute(vip.address, loopbackIndex, wanted)
    // An address of the dummy device has a route of its own, which a plain add would find in the way.
    return { op: vip.isOurs ? 'replace-route' : 'add-route', route }
  }

  #unbindOps(vip: VipState): readonly RouteOp[] {
    const isNeeded = vip.holders.length > 0
    const ops: RouteOp[] = []
    const { loopbackIndex, dummyIndex } = this.#place
    const keepsRoute = isNeeded && (this.#binding === 'routes' || !vip.isOnDummy)
    if (vip.route !== undefined && !keepsRoute)
      ops.push({ op: 'remove-route', route: localRoute(vip.address, loopbackIndex, vip.route) })
    const keepsAddress = isNeeded && (this.#binding === 'addresses' || vip.route === undefined)
    if (vip.isOnDummy && dummyIndex !== undefined && !keepsAddress) {
      ops.push({ op: 'remove-address', address: hostAddress(vip.address, dummyIndex) })
    }
    return ops
  }

  #markWhereDue(vip: VipState): void {
    const isDue =
      (vip.holders.length > 0 && this.#bindOp(vip) !== undefined) || this.#unbindOps(vip).length > 0
    if (isDue) this.#dirty.add(vip)
    this.#forgetUnused(vip)
  }

  #forgetUnused(vip: VipState): void {
    if (vip.holders.length > 0 || vip.isOurs || vip.isStale) return
    this.#vips.delete(vip.address)
    this.#dirty.delete(vip)
  }
}

function hostAddress(address: IpAddress, interfaceIndex: number): InterfaceAddress {
  return { address, prefixLength: hostPrefixLength(familyOf(address)), interfaceIndex }
}

function localRoute(
  address: IpAddress,
  interfaceIndex: number,
  { protocol, preferredSource }: RouteState,
): LocalRoute {
  const route = { address, interfaceIndex, protocol }
  return preferredSource === undefined ? route : { ...route, preferredSource }
}

function enterStep(vip: VipState, op: RouteOp): void {
  switch (op.op) {
    case 'add-route':
    case 'replace-route':
      vip.route = { protocol: op.route.protocol, preferredSource: op.route.preferredSource }
      return
    case 'remove-route':
      vip.route = undefined
      return
    case 'add-address':
      vip.isOnDummy = true
      return
    case 'remove-address':
      vip.isOnDummy = false
  }
}

/** EEXIST: somebody made it local, and only a dump tells who. ENODEV: the dummy device is gone. */
function meaningOf(op: RouteOp, { error, unknown }: OperationFailure): 'done' | 'stale' | 'refused' {
  if (unknown) return 'stale'
  const isRemoval = op.op === 'remove-route' || op.op === 'remove-address'
  if (isRemoval)
    return isNotFound(error) || error.code === 'EADDRNOTAVAIL' || error.code === 'ENODEV' ? 'done' : 'refused'
  return isExists(error) || error.code === 'ENODEV' ? 'stale' : 'refused'
}

function countDrift(
  vip: VipState,
  was: { readonly route: RouteState | undefined; readonly isOnDummy: boolean },
  drift: DriftCounter,
): void {
  const isRouteLost = was.route !== undefined && vip.route === undefined
  if (isRouteLost || (was.isOnDummy && !vip.isOnDummy)) drift.add('binding-missing')
  else if (was.route !== undefined && !equalRoutes(was.route, vip.route)) drift.add('binding-changed')
  else if (was.route === undefined && !was.isOnDummy && vip.isOurs && vip.holders.length === 0) {
    drift.add('binding-unexpected')
  }
}

function equalRoutes(a: RouteState, b: RouteState | undefined): boolean {
  return a.protocol === b?.protocol && a.preferredSource === b.preferredSource
}
