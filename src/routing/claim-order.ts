// The order of the claims on one frontend (docs/adr/0007). It depends on the objects alone: every node comes to the same owner.
import { hasAddress } from '../address.js'
import {
  compareSeniority,
  type Seniority,
  seniorityReason,
  type ServicePort,
  type ServicePortKey,
} from '../model/index.js'
import { addressOf, type Frontend } from './frontend.js'

/**
 * Where a service port has a frontend from, the strongest first. `allocated`: a cluster IP, a node port or a health check port, which the
 * API server gives to one Service. `load-balancer`: the status of the Service. `external-ip`: spec.externalIPs, which every author of a Service may write.
 */
export const frontendOrigins = ['allocated', 'load-balancer', 'external-ip'] as const
export type FrontendOrigin = (typeof frontendOrigins)[number]

/** The facts that decide between the claims on one frontend. */
export interface Standing extends Seniority {
  readonly route: ServicePortKey
  readonly origin: FrontendOrigin
}

/** The facts about a service port that its claims need. */
export type Claimant = Pick<
  ServicePort,
  'key' | 'service' | 'clusterIP' | 'loadBalancerIPs' | 'createdSeconds'
>

/** Where the service port has this frontend of its own from: the strongest of several origins. */
export function originOf(
  frontend: Frontend,
  { clusterIP, loadBalancerIPs }: Pick<Claimant, 'clusterIP' | 'loadBalancerIPs'>,
): FrontendOrigin {
  const address = addressOf(frontend)
  if (address === undefined || address === clusterIP) return 'allocated'
  return hasAddress(loadBalancerIPs, address) ? 'load-balancer' : 'external-ip'
}

/** The standing of a service port that claims the frontend. */
export function standingOf(frontend: Frontend, claimant: Claimant): Standing {
  const { key, service, createdSeconds } = claimant
  return { route: key, origin: originOf(frontend, claimant), service, createdSeconds }
}

/**
 * Sorts the owner first: by origin, then the Service that comes first by `compareSeniority`; of ports of one Service, the key that is
 * first bytewise. 0 only for equal keys.
 */
export function compareStandings(a: Standing, b: Standing): number {
  if (a.origin !== b.origin) return frontendOrigins.indexOf(a.origin) - frontendOrigins.indexOf(b.origin)
  const bySeniority = compareSeniority(a, b)
  if (bySeniority !== 0) return bySeniority
  if (a.route === b.route) return 0
  return a.route < b.route ? -1 : 1
}

/** Why the owner has the frontend and not the loser: a clause that follows the owner's name and a comma. */
export function reasonOf(owner: Standing, loser: Standing): string {
  if (owner.origin !== loser.origin)
    return owner.origin === 'allocated'
      ? 'to which the API server allocated it'
      : 'whose load balancer has it'
  return seniorityReason(owner, loser)
}
