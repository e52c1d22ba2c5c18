// Frontends that several service ports claim (docs/adr/0007).
import type { PipelineView } from '../engine/index.js'
import type { ServicePort, ServicePortKey } from '../model/index.js'
import { addressOf, type Frontend, frontendsOf, type Route } from '../routing/index.js'
import { type Owners, ownersOf, portThatOwns } from './frontend-owners.js'
import type { Inspected } from './inspected.js'
import { familyName } from './parts.js'

/** The owners of all frontends, of each family in which there is a conflict. */
export type Conflicts = ReadonlyMap<PipelineView, Owners>

/** Without a conflict it costs nothing: a mode reports each one as a problem, which names the frontend. */
export async function readConflicts({ synchronizer, problems, clock }: Inspected): Promise<Conflicts> {
  const present = problems()
  const conflicts = new Map<PipelineView, Owners>()
  for (const view of synchronizer.views) {
    const family = familyName(view.health.family)
    const isContested = present.some(
      ({ fields }) => fields['frontend'] !== undefined && fields['ipFamily'] === family,
    )
    if (isContested) conflicts.set(view, await ownersOf(view, undefined, clock))
  }
  return conflicts
}

/** The service port that has the frontend in place of `port`; undefined: `port` has it. */
export function rivalOf(
  owners: Owners | undefined,
  port: ServicePort,
  frontend: Frontend,
): ServicePortKey | undefined {
  const owner = owners && portThatOwns(owners, frontend)?.key
  return owner === port.key ? undefined : owner
}

const noFrontends: readonly Frontend[] = []

/** The frontends of the service port that others have. */
export function lostOf(owners: Owners | undefined, port: ServicePort): readonly Frontend[] {
  if (owners === undefined) return noFrontends
  return frontendsOf(port).filter((frontend) => rivalOf(owners, port, frontend) !== undefined)
}

/** The route without the external frontends that others have. It has its cluster IP. */
export function owned(decided: Route, owners: Owners | undefined): Route {
  if (owners === undefined) return decided
  const addresses = new Set(lostOf(owners, decided).map(addressOf))
  return {
    ...decided,
    nodePort: addresses.has(undefined) ? 0 : decided.nodePort,
    externalIPs: decided.externalIPs.filter((address) => !addresses.has(address)),
    loadBalancerIPs: decided.loadBalancerIPs.filter((address) => !addresses.has(address)),
  }
}
