// Links, host routes and interface addresses in a dry run.
import { constants } from 'node:os'
import { familyOf } from '../../address.js'
import { KernelError } from '../../errors.js'
import { AddressCursor, RouteCursor } from '../route/cursors.js'
import { dumpedShapes } from '../route/encode.js'
import {
  describeRouteOp,
  familyOfRouteOp,
  type InterfaceAddress,
  type Link,
  type Links,
  type LocalRoute,
  type RouteOp,
  type Routes,
} from '../route/routes.js'
import { QuietWatch, readOnce, takeBatch, withMembers } from './take-batch.js'
import type { TakeTransaction } from './transaction.js'

const { EADDRNOTAVAIL, EEXIST, ESRCH } = constants.errno

/** RTPROT_KERNEL: routes that come and go with an interface address. */
const kernelProtocol = 2

interface Network {
  readonly links: Links
  readonly routes: Routes
}

/** Links, routes and addresses. The agent finds a device that a transaction made, and it has no addresses. */
export function dryRunNetwork(real: Network, take: TakeTransaction): Network {
  const made: Link[] = []
  const links = dryRunLinks(real.links, made, take)
  return { links, routes: dryRunRoutes({ ...real, links }, made, take) }
}

function dryRunLinks(real: Links, made: Link[], take: TakeTransaction): Links {
  const list = async (): Promise<readonly Link[]> => [...(await real.list()), ...made]
  const nameOf = async (index: number): Promise<string> =>
    (await list()).find((link) => link.index === index)?.name ?? `if${index}`
  return withMembers(real, {
    list,
    find: async (name) => (await list()).find((link) => link.name === name),
    addDummy: async (name) => {
      const links = await list()
      if (links.some((link) => link.name === name))
        throw new KernelError({
          errno: EEXIST,
          subsystem: 'route',
          operation: 'add dummy device',
          object: name,
        })
      const link = {
        name,
        index: 1 + Math.max(...links.map(({ index }) => index)),
        kind: 'dummy',
        isUp: false,
      }
      made.push(link)
      take({ part: 'links', op: 'add-dummy', name })
      return link
    },
    setUp: async (index) => take({ part: 'links', op: 'set-up', name: await nameOf(index) }),
    remove: async (index) => take({ part: 'links', op: 'remove', name: await nameOf(index) }),
    watch: () => new QuietWatch(),
  })
}

/** The kernel's answer to an operation depends on the routes and addresses that it has: they are read at the first one. */
function dryRunRoutes(
  { links, routes: real }: Network,
  made: readonly Link[],
  take: TakeTransaction,
): Routes {
  const present = readOnce(async () => await Present.read(real))
  return withMembers(real, {
    apply: async (ops) => {
      if (ops.length === 0) return { applied: 0, failures: [] }
      const known = await present()
      const all = await links.list()
      const words = { subsystem: 'route', describe: describeRouteOp, familyOf: familyOfRouteOp } as const
      const answer = (op: RouteOp): number => known.apply(op)
      return takeBatch(ops, words, answer, (taken) => take({ part: 'routes', ops: taken, links: all }))
    },
    dumpAddresses: async (family, interfaceIndex) => {
      const isMade = made.some(({ index }) => index === interfaceIndex)
      return isMade ? new Uint8Array(0) : await real.dumpAddresses(family, interfaceIndex)
    },
  })
}

/** The routes and addresses of the kernel, by the keys on which its answers depend. */
class Present {
  /** By address. */
  readonly #routes = new Map<string, readonly LocalRoute[]>()
  readonly #addresses = new Set<string>()

  static async read(real: Routes): Promise<Present> {
    const present = new Present()
    for (const family of ['ipv4', 'ipv6'] as const) {
      const routes = new RouteCursor(await real.dumpLocalRoutes(family))
      for (let index = 0; index < routes.length; index++) present.#add(routes.route(index))
      const addresses = new AddressCursor(await real.dumpAddresses(family))
      for (let index = 0; index < addresses.length; index++)
        present.#addresses.add(keyOf(addresses.interfaceAddress(index)))
    }
    return present
  }

  /** An errno, or 0. */
  apply(op: RouteOp): number {
    switch (op.op) {
      case 'add-route':
      case 'replace-route': {
        const present = this.#routes.get(op.route.address) ?? []
        const others = present.filter((route) => metricOf(route) !== metricOf(op.route))
        if (op.op === 'add-route' && others.length < present.length) return EEXIST
        this.#routes.set(op.route.address, [...others, op.route])
        return 0
      }
      case 'remove-route':
        return this.#remove(op.route) ? 0 : ESRCH
      case 'add-address': {
        const { address, interfaceIndex } = op.address
        if (this.#addresses.has(keyOf(op.address))) return EEXIST
        this.#addresses.add(keyOf(op.address))
        this.#add({ address, interfaceIndex, protocol: kernelProtocol })
        return 0
      }
      case 'remove-address':
        if (!this.#addresses.delete(keyOf(op.address))) return EADDRNOTAVAIL
        this.#remove({ ...op.address, protocol: kernelProtocol })
        return 0
    }
  }

  #add(route: LocalRoute): void {
    this.#routes.set(route.address, [...(this.#routes.get(route.address) ?? []), route])
  }

  /** False: there is no such route. */
  #remove({ address, protocol, interfaceIndex, metric }: LocalRoute): boolean {
    const present = this.#routes.get(address) ?? []
    const index = present.findIndex(
      (route) =>
        route.protocol === protocol &&
        route.interfaceIndex === interfaceIndex &&
        (metric === undefined || metricOf(route) === metric),
    )
    if (index >= 0) this.#routes.set(address, present.toSpliced(index, 1))
    return index >= 0
  }
}

/** The kernel's own IPv6 routes have metric 0, those of users 1024. */
function metricOf({ address, protocol, metric }: LocalRoute): number {
  return metric ?? (protocol === kernelProtocol ? 0 : dumpedShapes[familyOf(address)].metric)
}

function keyOf({ address, prefixLength, interfaceIndex }: InterfaceAddress): string {
  return `${interfaceIndex} ${address}/${prefixLength}`
}
