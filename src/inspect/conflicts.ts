// Frontends that service ports want and do not get (docs/adr/0007, docs/adr/0028), as the modes report them.
import type { PipelineView } from '../engine/index.js'
import type { ServicePort } from '../model/index.js'
import { addressOf, describeFrontend, type Frontend, frontendsOf, type Route } from '../routing/index.js'
import type { Inspected } from './inspected.js'
import type { Rival } from './left-out.js'
import { familyName } from './parts.js'

/** By the key of the service port, a blank, and the name of the frontend; by the name of the Service, a blank, and an address. */
export type LostFrontends = ReadonlyMap<string, Rival>

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
    const lost = new Map<string, Rival>()
    for (const { service, frontend, address, owner, reason, ipFamily } of present) {
      const place = frontend ?? address
      if (ipFamily !== family || typeof place !== 'string' || typeof owner !== 'string') continue
      lost.set(`${service} ${place}`, { owner, reason: String(reason) })
    }
    if (lost.size > 0) conflicts.set(view, lost)
  }
  return conflicts
}

/** The owner of the frontend in place of `port`; undefined: `port` has it. */
export function rivalOf(
  lost: LostFrontends | undefined,
  port: ServicePort,
  frontend: Frontend,
): Rival | undefined {
  if (lost === undefined) return undefined
  const address = addressOf(frontend)
  const rival =
    lost.get(`${port.key} ${describeFrontend(frontend)}`) ?? lost.get(`${port.service} ${address}`)
  if (rival !== undefined || frontend.kind !== 'node-port') return rival
  // In ipvs mode a node port is a virtual server of each of the node's addresses.
  const own = new Set(frontendsOf(port).map((other) => `${port.key} ${describeFrontend(other)}`))
  const prefix = `${port.key} ${frontend.protocol} `
  for (const [name, other] of lost)
    if (name.startsWith(prefix) && name.endsWith(`:${frontend.port}`) && !own.has(name)) return other
  return undefined
}

const noFrontends: readonly Frontend[] = []

/** The frontends of the service port that it does not get. */
export function lostOf(lost: LostFrontends | undefined, port: ServicePort): readonly Frontend[] {
  if (lost === undefined) return noFrontends
  return frontendsOf(port).filter((frontend) => rivalOf(lost, port, frontend) !== undefined)
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
