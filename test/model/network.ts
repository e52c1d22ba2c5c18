// The part of a network namespace that Links and Routes share: interfaces, their addresses, the local table.
import { constants } from 'node:os'
import { familyOf, type IpAddress, parseIpAddress } from '../../src/address.js'
import type {
  LinkEvent,
  InterfaceAddress,
  LocalRoute,
  RouteChoice,
  RouteOp,
} from '../../src/kernel/route/routes.js'

const { EADDRNOTAVAIL, EEXIST, EINVAL, ENETDOWN, ENODEV, EOPNOTSUPP, ESRCH } = constants.errno

/** RTPROT_KERNEL: routes that the kernel adds and removes with an interface address. */
const kernelProtocol = 2
const loopbackIndex = 1

export interface ModelLink {
  readonly name: string
  readonly index: number
  readonly kind: string
  isUp: boolean
}

function isSameAddress(a: InterfaceAddress, b: InterfaceAddress): boolean {
  const isSame = a.address === b.address && a.interfaceIndex === b.interfaceIndex
  // IPv4 may have one address with several prefix lengths (inet_insert_ifa), IPv6 may not (ipv6_add_addr).
  return isSame && (familyOf(a.address) === 'ipv6' || a.prefixLength === b.prefixLength)
}

/** The key that EXCL and REPLACE compare. The kernel's own IPv6 routes have metric 0, those of users 1024. */
function isSameRoute(a: LocalRoute, b: LocalRoute): boolean {
  return a.address === b.address && metricOf(a) === metricOf(b)
}

function metricOf({ address, protocol, metric }: LocalRoute): number {
  return metric ?? (familyOf(address) === 'ipv6' && protocol !== kernelProtocol ? 1024 : 0)
}

/** Methods return an errno, or 0 for success. */
export class ModelNetwork {
  readonly links = new Map<number, ModelLink>()
  routes: LocalRoute[] = []
  addresses: InterfaceAddress[] = []
  /** The addresses that unicast routes lead to by name. */
  nextHops: IpAddress[] = []
  /** Receives each change of links and addresses. */
  readonly listeners = new Set<(event: LinkEvent) => void>()
  #nextIndex = loopbackIndex + 1

  constructor() {
    this.links.set(loopbackIndex, { name: 'lo', index: loopbackIndex, kind: '', isUp: true })
    for (const cidr of ['127.0.0.1/8', '::1/128']) {
      const [text = '', length] = cidr.split('/')
      const address = parseIpAddress(text)
      if (address !== undefined)
        this.addAddress({ address, prefixLength: Number(length), interfaceIndex: loopbackIndex })
    }
  }

  apply(op: RouteOp): number {
    switch (op.op) {
      case 'add-route':
        return this.addRoute(op.route, false)
      case 'replace-route':
        return this.addRoute(op.route, true)
      case 'remove-route':
        return this.removeRoute(op.route)
      case 'add-address':
        return this.addAddress(op.address)
      case 'remove-address':
        return this.removeAddress(op.address)
    }
  }

  addRoute(route: LocalRoute, mayReplace: boolean): number {
    const errno = this.#checkRoute(route)
    if (errno !== 0) return errno
    const index = this.routes.findIndex((other) => isSameRoute(other, route))
    if (index < 0) this.routes.push(route)
    else if (mayReplace) this.routes[index] = route
    else return EEXIST
    return 0
  }

  removeRoute(route: LocalRoute): number {
    const index = this.routes.findIndex(
      (other) =>
        other.address === route.address &&
        other.protocol === route.protocol &&
        other.interfaceIndex === route.interfaceIndex &&
        (route.metric === undefined || metricOf(other) === route.metric),
    )
    if (index < 0) return ESRCH
    this.routes.splice(index, 1)
    return 0
  }

  addAddress(address: InterfaceAddress): number {
    const { interfaceIndex } = address
    if (!this.links.has(interfaceIndex)) return ENODEV
    if (this.addresses.some((other) => isSameAddress(other, address))) return EEXIST
    this.addresses.push(address)
    const preferredSource = familyOf(address.address) === 'ipv4' ? { preferredSource: address.address } : {}
    // The kernel appends its route even if another one exists (fib_magic, NLM_F_APPEND).
    this.routes.push({
      address: address.address,
      interfaceIndex,
      ...preferredSource,
      protocol: kernelProtocol,
    })
    this.#announceAddress('add', address)
    return 0
  }

  removeAddress(address: InterfaceAddress): number {
    if (!this.links.has(address.interfaceIndex)) return ENODEV
    const index = this.addresses.findIndex((other) => isSameAddress(other, address))
    if (index < 0) return EADDRNOTAVAIL
    this.addresses.splice(index, 1)
    const isKept = this.addresses.some(
      (other) => other.address === address.address && other.interfaceIndex === address.interfaceIndex,
    )
    if (!isKept) this.#dropRoutes((route) => route.protocol === kernelProtocol && isRouteOf(route, address))
    this.#announceAddress('remove', address)
    return 0
  }

  /** undefined: ENODEV. */
  lookUp(destination: IpAddress, inInterface: number | undefined): RouteChoice | undefined {
    if (inInterface !== undefined && !this.links.has(inInterface)) return undefined
    const [best] = this.routes
      .filter(({ address }) => address === destination)
      .toSorted((a, b) => metricOf(a) - metricOf(b))
    if (best === undefined) return { isRouted: false, errno: 'ENETUNREACH' }
    const { preferredSource } = best
    return {
      isRouted: true,
      isLocal: true,
      interfaceIndex: loopbackIndex,
      ...(preferredSource === undefined ? {} : { preferredSource }),
    }
  }

  /** The link, or the errno EEXIST. */
  addDummy(name: string): ModelLink | number {
    if ([...this.links.values()].some((link) => link.name === name)) return EEXIST
    const link: ModelLink = { name, index: this.#nextIndex++, kind: 'dummy', isUp: false }
    this.links.set(link.index, link)
    this.#announce({ kind: 'link', change: 'add', name, index: link.index })
    return link
  }

  setUp(index: number): number {
    const link = this.links.get(index)
    if (link === undefined) return ENODEV
    link.isUp = true
    this.#announce({ kind: 'link', change: 'add', name: link.name, index })
    return 0
  }

  removeLink(index: number): number {
    const link = this.links.get(index)
    if (link === undefined) return ENODEV
    if (index === loopbackIndex) return EOPNOTSUPP
    for (const address of this.addresses.filter((other) => other.interfaceIndex === index))
      this.removeAddress(address)
    this.#dropRoutes((route) => route.interfaceIndex === index)
    this.links.delete(index)
    this.#announce({ kind: 'link', change: 'remove', name: link.name, index })
    return 0
  }

  #checkRoute({ address, interfaceIndex, preferredSource }: LocalRoute): number {
    const link = this.links.get(interfaceIndex)
    if (link === undefined) return ENODEV
    // fib6_nh_init() requires the device to be up; fib_create_info() accepts a local route on any device.
    const isIpv6 = familyOf(address) === 'ipv6'
    if (isIpv6 && !link.isUp) return ENETDOWN
    if (preferredSource === undefined || (!isIpv6 && preferredSource === address)) return 0
    // IPv4 checks the local table (fib_valid_prefsrc), IPv6 the interfaces (ipv6_chk_addr).
    const isLocal = isIpv6
      ? this.addresses.some((other) => other.address === preferredSource)
      : this.routes.some((route) => route.address === preferredSource)
    return isLocal ? 0 : EINVAL
  }

  #dropRoutes(isDropped: (route: LocalRoute) => boolean): void {
    this.routes = this.routes.filter((route) => !isDropped(route))
  }

  #announceAddress(change: 'add' | 'remove', { address, interfaceIndex }: InterfaceAddress): void {
    this.#announce({ kind: 'address', change, index: interfaceIndex, family: familyOf(address), address })
  }

  #announce(event: LinkEvent): void {
    for (const listener of this.listeners) listener(event)
  }
}

function isRouteOf(route: LocalRoute, address: InterfaceAddress): boolean {
  return route.address === address.address && route.interfaceIndex === address.interfaceIndex
}
