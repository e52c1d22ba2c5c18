// Names of kernel objects in errors and logs.
import { familyOf, formatEndpoint, type IpFamily } from '../address.js'
import type { IpvsOp, VirtualServerKey } from './ipvs/ipvs.js'
import type { RouteOp } from './route/routes.js'

/** `tcp 10.96.0.10:53`, `fwmark 7 ipv6`. */
export function describeVirtualServer(key: VirtualServerKey): string {
  return 'mark' in key
    ? `fwmark ${key.mark} ${key.family}`
    : `${key.protocol} ${formatEndpoint(key.address, key.port)}`
}

/** The object of the operation: `tcp 10.96.0.10:53 -> 10.244.1.5:53`. */
export function describeIpvsOp(op: IpvsOp): string {
  switch (op.op) {
    case 'add-virtual-server':
    case 'set-virtual-server':
      return describeVirtualServer(op.server.key)
    case 'remove-virtual-server':
    case 'zero-virtual-server':
      return describeVirtualServer(op.server)
    case 'add-real-server':
    case 'set-real-server':
      return `${describeVirtualServer(op.server)} -> ${formatEndpoint(op.real.key.address, op.real.key.port)}`
    case 'remove-real-server':
      return `${describeVirtualServer(op.server)} -> ${formatEndpoint(op.real.address, op.real.port)}`
  }
}

export function familyOfIpvsOp(op: IpvsOp): IpFamily {
  return 'key' in op.server ? op.server.key.family : op.server.family
}

/** `10.96.0.10 on interface 1`. */
export function describeRouteOp(op: RouteOp): string {
  if ('route' in op) return `${op.route.address} on interface ${op.route.interfaceIndex}`
  const { address, prefixLength, interfaceIndex } = op.address
  return `${address}/${prefixLength} on interface ${interfaceIndex}`
}

export function familyOfRouteOp(op: RouteOp): IpFamily {
  return familyOf('route' in op ? op.route.address : op.address.address)
}
