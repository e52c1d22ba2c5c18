import { constants } from 'node:os'
import { familyOf, type IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import {
  describeRouteOp,
  familyOfRouteOp,
  type RouteChoice,
  type RouteOp,
  type RouteQuestion,
  type Routes,
} from '../../src/kernel/route/routes.js'
import type { BatchOutcome } from '../../src/kernel/batch.js'
import { hostPrefixLength, recordBuffer } from '../../src/kernel/records.js'
import { addressLayout, opNumber, routeLayout } from '../../src/kernel/route/layout.js'
import { dumpedShapes, writeInterfaceAddress, writeRoute } from '../../src/kernel/route/encode.js'
import { ModelBatches } from './faults.js'
import type { ModelNetwork } from './network.js'

const { ENODEV } = constants.errno

/** Routes in memory. `batches` holds the injected faults and the log of operations. */
export class ModelRoutes implements Routes {
  readonly batches = new ModelBatches<RouteOp>({
    subsystem: 'route',
    describe: describeRouteOp,
    familyOf: familyOfRouteOp,
  })
  readonly #network: ModelNetwork

  constructor(network: ModelNetwork) {
    this.#network = network
  }

  async apply(ops: readonly RouteOp[]): Promise<BatchOutcome> {
    return this.batches.apply(ops, (op) => this.#network.apply(op))
  }

  /** Knows the local table alone. */
  async lookUp(questions: readonly RouteQuestion[]): Promise<readonly RouteChoice[]> {
    return questions.map(({ destination, inInterface }) => {
      const object = inInterface === undefined ? {} : { object: `interface ${inInterface}` }
      this.batches.enter('lookUp', { family: familyOf(destination), ...object })
      const choice = this.#network.lookUp(destination, inInterface)
      if (choice === undefined)
        throw new KernelError({ errno: ENODEV, subsystem: 'route', operation: 'look up route', ...object })
      return choice
    })
  }

  async dumpLocalRoutes(family: IpFamily): Promise<Uint8Array> {
    this.batches.enter('dumpLocalRoutes', { family })
    const routes = this.#network.routes.filter((route) => familyOf(route.address) === family)
    const buffer = recordBuffer(routes.length * routeLayout.size)
    const { scope, metric } = dumpedShapes[family]
    for (const [index, route] of routes.entries()) {
      const at = index * routeLayout.size
      writeRoute(buffer, at, route, opNumber.none)
      buffer.bytes[at + routeLayout.scope] = scope
      buffer.view.setUint32(at + routeLayout.metric, route.metric ?? metric, true)
    }
    return buffer.bytes
  }

  async dumpNextHops(family: IpFamily): Promise<Uint8Array> {
    this.batches.enter('dumpNextHops', { family })
    const hops = this.#network.nextHops.filter((address) => familyOf(address) === family)
    const buffer = recordBuffer(hops.length * addressLayout.size)
    for (const [index, address] of hops.entries()) {
      const hop = { address, prefixLength: hostPrefixLength(family), interfaceIndex: 1 }
      writeInterfaceAddress(buffer, index * addressLayout.size, hop, opNumber.none)
    }
    return buffer.bytes
  }

  async dumpAddresses(family: IpFamily, interfaceIndex?: number): Promise<Uint8Array> {
    this.batches.enter('dumpAddresses', {
      family,
      ...(interfaceIndex === undefined ? {} : { object: `interface ${interfaceIndex}` }),
    })
    if (interfaceIndex !== undefined && !this.#network.links.has(interfaceIndex))
      throw new KernelError({
        errno: constants.errno.ENODEV,
        subsystem: 'route',
        operation: 'dump addresses',
        object: `interface ${interfaceIndex}`,
      })
    const addresses = this.#network.addresses.filter(
      (address) =>
        familyOf(address.address) === family &&
        (interfaceIndex === undefined || address.interfaceIndex === interfaceIndex),
    )
    const buffer = recordBuffer(addresses.length * addressLayout.size)
    for (const [index, address] of addresses.entries())
      writeInterfaceAddress(buffer, index * addressLayout.size, address, opNumber.none)
    return buffer.bytes
  }

  async close(): Promise<void> {
    this.batches.close()
  }
}
