// Links, host routes and interface addresses with the planned changes. Links and routes share it: an address brings its local route.
import { constants } from 'node:os'
import { familyOf, type IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import {
  describeRouteOp,
  familyOfRouteOp,
  type Link,
  type Links,
  type LinkWatch,
  type InterfaceAddress,
  type LocalRoute,
  type RouteChoice,
  type RouteOp,
  type RouteQuestion,
  type Routes,
} from '../route/routes.js'
import type { BatchOutcome } from '../batch.js'
import { recordBuffer } from '../records.js'
import { AddressCursor, RouteCursor } from '../route/cursors.js'
import { dumpedShapes, writeInterfaceAddress, writeRoute } from '../route/encode.js'
import { addressLayout, opNumber, routeLayout } from '../route/layout.js'
import { planBatch } from './planned-batch.js'
import { PlannedWatch } from './planned-watch.js'

const { EADDRNOTAVAIL, EEXIST, ENODEV, ESRCH } = constants.errno

const families = ['ipv4', 'ipv6'] as const
/** RTPROT_KERNEL: routes that come and go with an interface address. */
const kernelProtocol = 2

interface Network {
  links: readonly Link[]
  /** By address. */
  readonly routes: Map<string, readonly LocalRoute[]>
  /** By `addressKey`. */
  readonly addresses: Map<string, InterfaceAddress>
}

/** The kernel's own IPv6 routes have metric 0, those of users 1024. */
function metricOf({ address, protocol, metric }: LocalRoute): number {
  return metric ?? (protocol === kernelProtocol ? 0 : dumpedShapes[familyOf(address)].metric)
}

function addressKey({ address, prefixLength, interfaceIndex }: InterfaceAddress): string {
  return `${interfaceIndex} ${address}/${prefixLength}`
}

/** Links and Routes of a plan. Everything is read at the first call. */
export class PlannedNetwork implements Links, Routes {
  readonly #links: Links
  readonly #routes: Routes
  #network: Promise<Network> | undefined

  constructor(links: Links, routes: Routes) {
    this.#links = links
    this.#routes = routes
  }

  async list(): Promise<readonly Link[]> {
    return (await this.#read()).links
  }

  async find(name: string): Promise<Link | undefined> {
    return (await this.list()).find((link) => link.name === name)
  }

  async addDummy(name: string): Promise<Link> {
    const network = await this.#read()
    if (network.links.some((link) => link.name === name)) throw refusal('add dummy device', EEXIST, name)
    const index = 1 + Math.max(...network.links.map((link) => link.index))
    const link = { name, index, kind: 'dummy', isUp: false }
    network.links = [...network.links, link]
    return link
  }

  async setUp(index: number): Promise<void> {
    const network = await this.#read()
    network.links = network.links.map((link) => (link.index === index ? { ...link, isUp: true } : link))
  }

  async remove(index: number): Promise<void> {
    const network = await this.#read()
    const others = network.links.filter((link) => link.index !== index)
    if (others.length === network.links.length)
      throw refusal('remove interface', ENODEV, `interface ${index}`)
    network.links = others
    for (const [key, { interfaceIndex }] of network.addresses)
      if (interfaceIndex === index) network.addresses.delete(key)
    for (const [address, routes] of network.routes)
      network.routes.set(
        address,
        routes.filter(({ interfaceIndex }) => interfaceIndex !== index),
      )
  }

  watch(): LinkWatch {
    return new PlannedWatch()
  }

  async apply(ops: readonly RouteOp[]): Promise<BatchOutcome> {
    const network = await this.#read()
    const words = { subsystem: 'route', describe: describeRouteOp, familyOf: familyOfRouteOp } as const
    return planBatch(ops, words, (op) => applyOne(network, op))
  }

  async lookUp(questions: readonly RouteQuestion[]): Promise<readonly RouteChoice[]> {
    return await this.#routes.lookUp(questions)
  }

  async dumpLocalRoutes(family: IpFamily): Promise<Uint8Array> {
    const { routes } = await this.#read()
    const found = [...routes.values()].flat().filter((route) => familyOf(route.address) === family)
    const buffer = recordBuffer(found.length * routeLayout.size)
    for (const [index, route] of found.entries()) {
      const at = index * routeLayout.size
      writeRoute(buffer, at, route, opNumber.none)
      buffer.bytes[at + routeLayout.scope] = dumpedShapes[family].scope
      buffer.view.setUint32(at + routeLayout.metric, metricOf(route), true)
    }
    return buffer.bytes
  }

  /** A plan changes no unicast route. */
  async dumpNextHops(family: IpFamily): Promise<Uint8Array> {
    return await this.#routes.dumpNextHops(family)
  }

  async dumpAddresses(family: IpFamily, interfaceIndex = 0): Promise<Uint8Array> {
    const { addresses } = await this.#read()
    const found = [...addresses.values()].filter(
      (each) =>
        familyOf(each.address) === family && (interfaceIndex === 0 || each.interfaceIndex === interfaceIndex),
    )
    const buffer = recordBuffer(found.length * addressLayout.size)
    for (const [index, address] of found.entries())
      writeInterfaceAddress(buffer, index * addressLayout.size, address, opNumber.none)
    return buffer.bytes
  }

  async close(): Promise<void> {
    await Promise.all([this.#links.close(), this.#routes.close()])
  }

  #read(): Promise<Network> {
    return (this.#network ??= this.#readAll())
  }

  async #readAll(): Promise<Network> {
    const routes = new Map<string, readonly LocalRoute[]>()
    const addresses = new Map<string, InterfaceAddress>()
    for (const family of families) {
      const routeCursor = new RouteCursor(await this.#routes.dumpLocalRoutes(family))
      for (let index = 0; index < routeCursor.length; index++) {
        addRoute(routes, routeCursor.route(index))
      }
      const addressCursor = new AddressCursor(await this.#routes.dumpAddresses(family))
      for (let index = 0; index < addressCursor.length; index++) {
        const address = addressCursor.interfaceAddress(index)
        addresses.set(addressKey(address), address)
      }
    }
    return { links: await this.#links.list(), routes, addresses }
  }
}

/** An errno, or 0. */
function applyOne({ routes, addresses }: Network, op: RouteOp): number {
  switch (op.op) {
    case 'add-route':
    case 'replace-route': {
      const present = routes.get(op.route.address) ?? []
      const others = present.filter((route) => metricOf(route) !== metricOf(op.route))
      if (op.op === 'add-route' && others.length < present.length) return EEXIST
      routes.set(op.route.address, [...others, op.route])
      return 0
    }
    case 'remove-route':
      return removeRoute(routes, op.route) ? 0 : ESRCH
    case 'add-address':
      return addAddress(routes, addresses, op.address)
    case 'remove-address': {
      if (!addresses.delete(addressKey(op.address))) return EADDRNOTAVAIL
      removeRoute(routes, { ...op.address, protocol: kernelProtocol })
      return 0
    }
  }
}

function addRoute(routes: Network['routes'], route: LocalRoute): void {
  routes.set(route.address, [...(routes.get(route.address) ?? []), route])
}

/** False: there is no such route. */
function removeRoute(routes: Network['routes'], wanted: LocalRoute): boolean {
  const present = routes.get(wanted.address) ?? []
  const index = present.findIndex(
    (route) =>
      route.protocol === wanted.protocol &&
      route.interfaceIndex === wanted.interfaceIndex &&
      (wanted.metric === undefined || metricOf(route) === wanted.metric),
  )
  if (index < 0) return false
  routes.set(wanted.address, present.toSpliced(index, 1))
  return true
}

function addAddress(
  routes: Network['routes'],
  addresses: Network['addresses'],
  address: InterfaceAddress,
): number {
  const key = addressKey(address)
  if (addresses.has(key)) return EEXIST
  addresses.set(key, address)
  const source = familyOf(address.address) === 'ipv4' ? { preferredSource: address.address } : {}
  const { interfaceIndex } = address
  addRoute(routes, { address: address.address, interfaceIndex, ...source, protocol: kernelProtocol })
  return 0
}

function refusal(operation: string, errno: number, object: string): KernelError {
  return new KernelError({ errno, subsystem: 'route', operation, object })
}
