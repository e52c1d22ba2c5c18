// Names of the relay's objects in errors and logs.
import { familyOf, formatEndpoint, type IpAddress, type IpFamily, parseIpAddress } from '../../address.js'
import { BugError } from '../../errors.js'
import type { RelayAddress, RelayOp } from './relay.js'

/** `tcp 10.96.0.10:53`. */
export function describeRelayListener({ protocol, address, port }: RelayAddress): string {
  return `${protocol} ${formatEndpoint(address, port)}`
}

/** The object of the operation: `tcp 10.96.0.10:53`, `ipv4 default/dns:dns/UDP`. */
export function describeRelayOp(op: RelayOp): string {
  switch (op.op) {
    case 'set-service':
    case 'remove-service':
      return op.name
    case 'set-listener':
    case 'remove-listener':
      return describeRelayListener(op.listener)
  }
}

/** The family of a listener. A service may have endpoints of both families. */
export function familyOfRelayOp(op: RelayOp): IpFamily | 'none' {
  return 'listener' in op ? familyOf(op.listener.address) : 'none'
}

/** The address of a listener on all addresses of node ports (RelaySettings). */
export const wildcardAddress: Readonly<Record<IpFamily, IpAddress>> = {
  ipv4: constantAddress('0.0.0.0'),
  ipv6: constantAddress('::'),
}

function constantAddress(text: string): IpAddress {
  const address = parseIpAddress(text)
  if (address === undefined) throw new BugError(`${text} is not an address`)
  return address
}
