import type { IpFamily } from '../../address.js'
import { serviceReference } from '../../event.js'
import type { Problem } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import { logFamily } from '../../engine/index.js'

/** A frontend that two service ports want (docs/adr/0007). */
export interface ConflictReport {
  readonly family: IpFamily
  /** `tcp 10.96.0.1:80`. */
  readonly frontend: string
  readonly loser: ServicePortKey
  /** The loser itself when it has it now. */
  readonly winner: ServicePortKey
}

/** undefined: there is none any more. */
export function frontendConflict({ family, frontend, loser, winner }: ConflictReport): Problem | undefined {
  if (winner === loser) return undefined
  const text = `Service port ${loser}: ${frontend} already belongs to ${winner}, which sorts first`
  const [namespace = '', name = ''] = loser.split(/[/:]/)
  const regarding = serviceReference(namespace, name)
  return {
    text,
    fields: { service: loser, frontend, ipFamily: logFamily(family) },
    event: { type: 'Warning', reason: 'FrontendConflict', action: 'Sync', regarding, note: text },
  }
}
