// Frontends that several service ports claim (docs/adr/0007).
import type { PipelineView } from '../engine/index.js'
import type { ServicePort, ServicePortKey } from '../model/index.js'
import type { Frontend } from '../routing/index.js'
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
