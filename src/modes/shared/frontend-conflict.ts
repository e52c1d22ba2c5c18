import type { IpFamily } from '../../address.js'
import { serviceReference } from '../../event.js'
import type { Problem, StateReporter } from '../../log.js'
import { logFamily } from '../../engine/index.js'
import type { ClaimConflict } from '../../routing/index.js'

/** A conflict of one family. `frontend`: its name, such as `tcp 10.96.0.1:80`. */
export type ConflictReport = ClaimConflict & { readonly family: IpFamily; readonly frontend: string }

/** Reports that a service port does not get a frontend that it claims, or that the conflict ended (docs/adr/0007). */
export function reportConflict(problems: StateReporter, conflict: ConflictReport): void {
  const { family, frontend, loser, winner } = conflict
  const key = `${family} ${frontend} of ${loser}`
  if (winner === undefined) problems.forget(key)
  else problems.report(key, winner === loser ? undefined : conflictProblem(conflict))
}

function conflictProblem({ family, frontend, loser, winner }: ConflictReport): Problem {
  const text = `Service port ${loser}: ${frontend} already belongs to ${winner}, which sorts first`
  const [namespace = '', name = ''] = loser.split(/[/:]/)
  const regarding = serviceReference(namespace, name)
  return {
    text,
    fields: { service: loser, frontend, ipFamily: logFamily(family) },
    event: { type: 'Warning', reason: 'FrontendConflict', action: 'Sync', regarding, note: text },
  }
}
