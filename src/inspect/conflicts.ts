// Frontends that service ports want and do not get (docs/adr/0007, docs/adr/0028): those that the modes report, and the holder of each.
import type { IpAddress } from '../address.js'
import type { PipelineView, PacketRules } from '../engine/index.js'
import type { ServicePort } from '../model/index.js'
import {
  addressOf,
  describeFrontend,
  type Frontend,
  frontendsOf,
  type Route,
  holderOf,
  holderReasons,
  type Taken,
} from '../routing/index.js'
import type { NodeFacts } from '../node/index.js'
import { type Inspected, familyName } from './inspected.js'

/** The frontends of a family that service ports do not get. */
interface LostFrontends {
  /** By the key of the service port, a blank, and the name of the frontend; by the name of the Service, a blank, and an address. */
  readonly owners: ReadonlyMap<string, FrontendOwner>
  /** In ipvs mode a node port is a virtual server of each of these. */
  readonly nodePortAddresses: readonly IpAddress[]
}

/** The lost frontends of each family that has any. */
export type Conflicts = ReadonlyMap<PipelineView, LostFrontends>

/** A mode reports each of them as a problem. */
export function readConflicts({
  synchronizer,
  problems,
}: Pick<Inspected, 'synchronizer' | 'problems'>): Conflicts {
  const present = problems().map(({ fields }) => fields)
  const conflicts = new Map<PipelineView, LostFrontends>()
  for (const view of synchronizer.views) {
    const family = familyName(view.health.family)
    const owners = new Map<string, FrontendOwner>()
    for (const { service, frontend, address, owner, reason, ipFamily } of present) {
      const place = frontend ?? address
      if (ipFamily !== family || typeof place !== 'string' || typeof owner !== 'string') continue
      owners.set(`${service} ${place}`, { owner, reason: String(reason) })
    }
    if (owners.size === 0) continue
    const { nodePortAddresses } = view.packetRules() ?? {}
    const isList = nodePortAddresses !== undefined && nodePortAddresses !== 'all'
    conflicts.set(view, { owners, nodePortAddresses: isList ? nodePortAddresses : [] })
  }
  return conflicts
}

/** The owner of the frontend in place of `port`; undefined: `port` has it. */
export function otherOwnerOf(
  lost: LostFrontends | undefined,
  port: ServicePort,
  frontend: Frontend,
): FrontendOwner | undefined {
  if (lost === undefined) return undefined
  const address = addressOf(frontend)
  const owner = lost.owners.get(nameOf(port, frontend)) ?? lost.owners.get(`${port.service} ${address}`)
  if (owner !== undefined || frontend.kind !== 'node-port') return owner
  const own = new Set(frontendsOf(port).map((each) => nameOf(port, each)))
  for (const served of lost.nodePortAddresses) {
    const name = nameOf(port, { ...frontend, kind: 'address', address: served })
    const other = own.has(name) ? undefined : lost.owners.get(name)
    if (other !== undefined) return other
  }
  return undefined
}

function nameOf({ key }: ServicePort, frontend: Frontend): string {
  return `${key} ${describeFrontend(frontend)}`
}

const noFrontends: readonly Frontend[] = []

/** The frontends of the service port that it does not get. */
export function lostOf(lost: LostFrontends | undefined, port: ServicePort): readonly Frontend[] {
  if (lost === undefined) return noFrontends
  return frontendsOf(port).filter((frontend) => otherOwnerOf(lost, port, frontend) !== undefined)
}

/** The route without the external frontends that it does not get. It keeps its cluster IP. */
export function owned(decided: Route, lost: LostFrontends | undefined): Route {
  if (lost === undefined) return decided
  const addresses = new Set(lostOf(lost, decided).map(addressOf))
  return {
    ...decided,
    nodePort: addresses.has(undefined) ? 0 : decided.nodePort,
    externalIPs: decided.externalIPs.filter((address) => !addresses.has(address)),
    loadBalancerIPs: decided.loadBalancerIPs.filter((address) => !addresses.has(address)),
  }
}

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
