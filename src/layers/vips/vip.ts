// One VIP, its bindings in the kernel, and the operations that change them.
import { type IpAddress, familyOf } from '../../address.js'
import { isExists, isNotFound } from '../../errors.js'
import {
  hostPrefixLength,
  type InterfaceAddress,
  type LocalRoute,
  type OperationFailure,
  type RouteOp,
} from '../../kernel/index.js'
import { KernelObject, type Meaning, type ObjectKind } from '../objects/index.js'
import { type PackedAddress, packedAddressOf, type RouteState } from './packed-bindings.js'

/** Devices and source of the bindings of one family. Changes only at a reconcile. */
export interface VipPlace {
  readonly loopbackIndex: number
  /** undefined: there is no dummy device of ours. */
  readonly dummyIndex: number | undefined
  /** Source that the node itself uses towards VIPs; undefined: the kernel chooses. */
  readonly preferredSource: IpAddress | undefined
}

/** A holder of a VIP; messages name it. */
export interface VipHolder {
  readonly service: string
}

/** The bindings of a VIP that are ours. */
export interface Bindings {
  /** Our route on lo; undefined: there is none. */
  readonly route: RouteState | undefined
  /** The dummy device has the address. */
  readonly isOnDummy: boolean
}

export const unbound: Bindings = { route: undefined, isOnDummy: false }

/** One address that is or was a VIP of ours. It is never a leftover by itself: a kept virtual server holds its VIP. */
export class Vip extends KernelObject<IpAddress, Bindings> {
  holders: readonly VipHolder[] = []
  #packedAddress: PackedAddress | undefined

  constructor(address: IpAddress) {
    super(address, unbound)
  }

  get address(): IpAddress {
    return this.id
  }

  /** Identity in a dump; made at the first use. */
  get packedAddress(): PackedAddress {
    return (this.#packedAddress ??= packedAddressOf(this.id))
  }

  get isAcknowledged(): boolean {
    return this.acknowledged.route !== undefined || this.acknowledged.isOnDummy
  }

  get isUnused(): boolean {
    return this.holders.length === 0 && !this.isAcknowledged
  }
}

/** Cost of the change of an address, in changes of routes: it takes the kernel 200 us or more. */
const addressCost = 8

/** VIPs as a kind of kernel objects, bound in this place, by routes of this metric (`VipTable`). */
export function bindingKind(
  place: VipPlace,
  metric: number | undefined,
): ObjectKind<Vip, Bindings, RouteOp, RouteOp[]> {
  const { loopbackIndex, dummyIndex } = place
  const routeOf = (address: IpAddress, state: RouteState): LocalRoute => ({
    ...localRoute(address, loopbackIndex, state),
    ...(metric === undefined ? {} : { metric }),
  })
  return {
    plan: (ops, { address, acknowledged }, { route, isOnDummy }) => {
      let cost = 0
      if (route === undefined && acknowledged.route !== undefined) {
        ops.push({ op: 'remove-route', route: routeOf(address, acknowledged.route) })
        cost++
      } else if (route !== undefined && !equalRoutes(route, acknowledged.route)) {
        // An address of the dummy device has its own route, which makes a plain add fail.
        const isInTheWay =
          acknowledged.route !== undefined || (acknowledged.isOnDummy && metric === undefined)
        ops.push({ op: isInTheWay ? 'replace-route' : 'add-route', route: routeOf(address, route) })
        cost++
      }
      if (isOnDummy === acknowledged.isOnDummy || dummyIndex === undefined) return cost
      ops.push({
        op: isOnDummy ? 'add-address' : 'remove-address',
        address: hostAddress(address, dummyIndex),
      })
      return cost + addressCost
    },
    advance,
    meaningOf,
    isSame: equalBindings,
  }
}

export function equalBindings(a: Bindings, b: Bindings): boolean {
  return a === b || (a.isOnDummy === b.isOnDummy && equalRoutes(a.route, b.route))
}

export function equalRoutes(a: RouteState | undefined, b: RouteState | undefined): boolean {
  return a === b || (a?.protocol === b?.protocol && a?.preferredSource === b?.preferredSource)
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

function advance({ route, isOnDummy }: Bindings, op: RouteOp): Bindings {
  switch (op.op) {
    case 'add-route':
    case 'replace-route':
      return {
        route: { protocol: op.route.protocol, preferredSource: op.route.preferredSource },
        isOnDummy,
      }
    case 'remove-route':
      return { route: undefined, isOnDummy }
    case 'add-address':
      return { route, isOnDummy: true }
    case 'remove-address':
      return { route, isOnDummy: false }
  }
}

/**
 * A removal that finds no route, address or device is done. EEXIST of an addition: another program made the address local, and only a
 * dump shows which route or address. ENODEV of an addition: the dummy device was removed.
 */
function meaningOf(_vip: Vip, op: RouteOp, { error, unknown }: OperationFailure): Meaning {
  if (unknown) return 'stale'
  const isRemoval = op.op === 'remove-route' || op.op === 'remove-address'
  if (isRemoval)
    return isNotFound(error) || error.code === 'EADDRNOTAVAIL' || error.code === 'ENODEV' ? 'done' : 'refused'
  return isExists(error) || error.code === 'ENODEV' ? 'stale' : 'refused'
}
