// Routes, addresses and links in the syntax of `ip -batch`.
import { familyOf } from '../../address.js'
import { describeRouteOp, type LocalRoute, type RouteOp } from '../../kernel/index.js'
import type { KernelOperation } from './operation.js'

/** The name of an interface. */
export type InterfaceName = (index: number) => string

export function printRouteOp(op: RouteOp, nameOf: InterfaceName): KernelOperation {
  const verb = op.op.split('-', 1)[0] ?? ''
  const object = `${'route' in op ? 'route' : 'address'} ${describeRouteOp(op)}`
  const text =
    'route' in op
      ? `route ${verb === 'remove' ? 'del' : verb} ${printRoute(op.route, nameOf)}`
      : `address ${verb === 'remove' ? 'del' : verb} ${op.address.address}/${op.address.prefixLength} dev ${nameOf(op.address.interfaceIndex)}`
  const effect = verb === 'remove' ? 'remove' : verb === 'replace' ? 'change' : 'add'
  return { tool: 'ip', effect, object, text }
}

function printRoute(route: LocalRoute, nameOf: InterfaceName): string {
  const { address, interfaceIndex, preferredSource, protocol, metric } = route
  const isIpv4 = familyOf(address) === 'ipv4'
  return [
    `local ${address} dev ${nameOf(interfaceIndex)} table local proto ${protocol === 2 ? 'kernel' : protocol}`,
    isIpv4 ? 'scope host' : '',
    preferredSource === undefined ? '' : `src ${preferredSource}`,
    metric === undefined ? '' : `metric ${metric}`,
  ]
    .filter((part) => part !== '')
    .join(' ')
}
