// Frontends that service ports want and do not get (docs/adr/0007, docs/adr/0028): those that the modes report, and the holder of each.
import type { IpAddress } from '../address.js'
import type { PacketRules } from '../engine/index.js'
import type { ServicePort } from '../model/index.js'
import { addressOf, type Frontend, holderOf, holderReasons, type Taken } from '../routing/index.js'
import type { NodeFacts } from '../node/index.js'

/** The facts by which a mode leaves frontends out. */
export interface LeftOutFacts {
  readonly services: Taken['services']
  readonly node: Pick<NodeFacts, 'places'>
  /** The addresses of this machine, without VIPs. */
  readonly machine: readonly IpAddress[]
  /** undefined: the mode has not begun. */
  readonly rules: Pick<PacketRules, 'foreignHolder'> | undefined
}

/** The owner of a frontend that another service port names and does not get. */
export interface FrontendOwner {
  /** A service port, a part of the node or the cluster such as `the API server`, or another machine. */
  readonly owner: string
  /** A clause that follows the owner and a comma. */
  readonly reason: string
}

/** The holder of the frontend, if the mode leaves it out for the service port; undefined: the service port may have it. */
export function leftOutFor(
  { services, node, machine, rules }: LeftOutFacts,
  port: ServicePort,
  frontend: Frontend,
): FrontendOwner | undefined {
  const holder = holderOf(frontend, port, { places: node.places, services }, machine)
  if (holder !== undefined) return { owner: holder.name, reason: holder.reason }
  const address = addressOf(frontend)
  const owner = address === undefined ? undefined : rules?.foreignHolder?.(port, address)
  return owner === undefined ? undefined : { owner, reason: holderReasons.elsewhere }
}

/** Why the mode refuses the protocol; undefined: it serves it. `isRelayed`: asked only where it decides, as many rows ask. */
export function unservedProtocol(protocol: string, isRelayed: () => boolean): string | undefined {
  return protocol.toUpperCase() === 'SCTP' && isRelayed() ? 'the relay serves no SCTP' : undefined
}
