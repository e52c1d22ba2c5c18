// The owners of frontends, the claims of service ports on each, and the order of the claims (docs/adr/0007). The order depends on the
// objects alone: every node comes to the same owner.
import {
  type ServicePortKey,
  compareSeniority,
  type Seniority,
  seniorityReason,
  type ServicePort,
} from '../model/index.js'
import { hasAddress } from '../address.js'
import { describeFrontend, type Frontend, addressOf } from './frontend.js'

export interface FrontendConflict extends ClaimConflict {
  /** The name that `describeFrontend` gives it. */
  readonly frontend: string
}

/** A change of the objects that a frontend's owner desires. An empty list: no service port claims the frontend. */
export interface FrontendChange<W> {
  readonly before: readonly W[]
  readonly after: readonly W[]
}

/**
 * The owners of all frontends of one IP family. A service port claims its frontends, each with the objects that it desires for it.
 * It may desire several objects for one frontend, and wins or loses all of them together.
 */
export class FrontendOwners<W extends { readonly frontend: Frontend }> {
  /** By the names of the frontends. */
  readonly #claims = new Map<string, FrontendClaims<readonly W[]>>()
  readonly #namesOf = new Map<ServicePortKey, readonly string[]>()
  /** Names of frontends that changed since the last `takeConflicts`, and were contested before or after. */
  readonly #contested = new Set<string>()

  /** Number of claimed frontends. */
  get size(): number {
    return this.#claims.size
  }

  /**
   * Replaces all claims of a service port; an empty list releases them, and then `claimant` may be undefined. Returns a change for each frontend whose owner changed, and
   * for each that the service port still owns.
   */
  claim(
    route: ServicePortKey,
    claimant: Claimant | undefined,
    claimed: readonly W[],
  ): readonly FrontendChange<W>[] {
    const wantedOf = claimant === undefined ? new Map<string, W[]>() : byFrontend(claimed)
    const former = this.#namesOf.get(route) ?? []
    if (wantedOf.size > 0) this.#namesOf.set(route, [...wantedOf.keys()])
    else this.#namesOf.delete(route)
    const changes: FrontendChange<W>[] = []
    for (const [name, value] of wantedOf) {
      const frontend = value[0]?.frontend
      if (claimant === undefined || frontend === undefined) continue
      const claims = this.#claims.get(name) ?? this.#open(name, frontend)
      const claim = { ...standingOf(frontend, claimant), value }
      this.#change(name, claims, () => claims.put(claim), changes)
    }
    for (const name of former) {
      const claims = wantedOf.has(name) ? undefined : this.#claims.get(name)
      if (claims !== undefined) this.#change(name, claims, () => claims.remove(route), changes)
    }
    return changes
  }

  /** The conflicts of the frontends that changed since the last call, and those that ended. */
  takeConflicts(): readonly FrontendConflict[] {
    const conflicts: FrontendConflict[] = []
    for (const name of this.#contested) {
      const claims = this.#claims.get(name)
      for (const conflict of claims?.takeConflicts() ?? []) conflicts.push({ frontend: name, ...conflict })
      if (claims !== undefined) this.#forgetUnused(name, claims)
    }
    this.#contested.clear()
    return conflicts
  }

  /** undefined: no service port claims the frontend. */
  ownerOf(frontend: Frontend): ServicePortKey | undefined {
    return this.#claims.get(describeFrontend(frontend))?.owner?.route
  }

  /** The objects that the frontend's owner desires; empty if no service port claims it. */
  wantedOf(frontend: Frontend): readonly W[] {
    return this.#claims.get(describeFrontend(frontend))?.owner?.value ?? []
  }

  /** The objects that all owners desire. Walks all frontends. */
  *owned(): Iterable<W> {
    for (const { owner } of this.#claims.values()) yield* owner?.value ?? []
  }

  #open(name: string, { kind }: Frontend): FrontendClaims<readonly W[]> {
    const claims = new FrontendClaims<readonly W[]>({
      isShared: kind === 'health-check',
    })
    this.#claims.set(name, claims)
    return claims
  }

  #change(
    name: string,
    claims: FrontendClaims<readonly W[]>,
    change: () => void,
    changes: FrontendChange<W>[],
  ): void {
    const before = claims.owner
    change()
    const after = claims.owner
    if (before !== after) changes.push({ before: before?.value ?? [], after: after?.value ?? [] })
    if (claims.isContested) this.#contested.add(name)
    this.#forgetUnused(name, claims)
  }

  #forgetUnused(name: string, claims: FrontendClaims<readonly W[]>): void {
    if (claims.owner === undefined && !claims.isContested) this.#claims.delete(name)
  }
}

/** The objects by the names of their frontends, in the order of the first object of each. Reads each object once. */
function byFrontend<W extends { readonly frontend: Frontend }>(objects: readonly W[]): Map<string, W[]> {
  const groups = new Map<string, W[]>()
  for (const object of objects) {
    const name = describeFrontend(object.frontend)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [object])
    else group.push(object)
  }
  return groups
}

/** The claim of one service port on a frontend. */
interface Claim<T> extends Standing {
  readonly value: T
}

/** A service port that does not have a frontend that it claims, or that did not have it when conflicts were last taken. */
export interface ClaimConflict {
  readonly loser: ServicePortKey
  /** The owner. The loser itself: its conflict has ended. undefined: it does not claim the frontend any more. */
  readonly winner: ServicePortKey | undefined
  /** Why the winner has it (`reasonOf`); absent: the conflict has ended. */
  readonly reason?: string
}

const noLosers: ReadonlySet<ServicePortKey> = new Set()
const noClaims: readonly never[] = []

/**
 * The claims on one frontend. The claim that `compareStandings` sorts first owns it, the other ones lose (docs/adr/0007). A loser becomes
 * the owner when the claims before it are removed. The rule has no history: every order of changes leads to the same owner.
 */
export class FrontendClaims<T> {
  readonly #isShared: boolean
  #owner: Claim<T> | undefined
  /** The other claims, in their order; nearly always none. */
  #others: readonly Claim<T>[] = noClaims
  /** The losers of the last `takeConflicts`. */
  #losers = noLosers

  /** `isShared`: the ports of one Service claim the frontend for the Service as a whole, and do not conflict. */
  constructor({ isShared }: { readonly isShared: boolean }) {
    this.#isShared = isShared
  }

  /** undefined: no service port claims the frontend. */
  get owner(): Claim<T> | undefined {
    return this.#owner
  }

  /** `takeConflicts` may return something. */
  get isContested(): boolean {
    return this.#others.length > 0 || this.#losers.size > 0
  }

  /** Adds the claim, or replaces the one of the same service port. */
  put(claim: Claim<T>): void {
    const others = this.#claimsBut(claim.route)
    if (others.length === 0) this.#owner = claim
    else this.#replaceAll([...others, claim])
  }

  /** Does nothing if the service port has no claim. */
  remove(route: ServicePortKey): void {
    this.#replaceAll(this.#claimsBut(route))
  }

  /** The present losers, and those of the last call. A loser is returned once more after its conflict ended. */
  takeConflicts(): readonly ClaimConflict[] {
    if (!this.isContested) return []
    const owner = this.#owner
    const conflicts: ClaimConflict[] = []
    for (const other of this.#others)
      if (owner !== undefined && !(this.#isShared && other.service === owner.service))
        conflicts.push({
          loser: other.route,
          winner: owner.route,
          reason: reasonOf(owner, other),
        })
    const losers = new Set(conflicts.map(({ loser }) => loser))
    const claimants = new Set([owner, ...this.#others].map((claim) => claim?.route))
    for (const loser of this.#losers)
      if (!losers.has(loser))
        conflicts.push({
          loser,
          winner: claimants.has(loser) ? loser : undefined,
        })
    this.#losers = losers.size === 0 ? noLosers : losers
    return conflicts
  }

  #claimsBut(route: ServicePortKey): readonly Claim<T>[] {
    const owner = this.#owner
    if (owner === undefined) return noClaims
    if (this.#others.length === 0) return owner.route === route ? noClaims : [owner]
    return [owner, ...this.#others].filter((claim) => claim.route !== route)
  }

  #replaceAll(claims: readonly Claim<T>[]): void {
    const [owner, ...others] = claims.toSorted(compareStandings)
    this.#owner = owner
    this.#others = others.length === 0 ? noClaims : others
  }
}

/**
 * Where a service port has a frontend from, the strongest first. `allocated`: a cluster IP, a node port or a health check port, which the
 * API server gives to one Service. `load-balancer`: the status of the Service. `external-ip`: spec.externalIPs, which every author of a Service may write.
 */
const frontendOrigins = ['allocated', 'load-balancer', 'external-ip'] as const
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
function originOf(
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
function reasonOf(owner: Standing, loser: Standing): string {
  if (owner.origin !== loser.origin)
    return owner.origin === 'allocated'
      ? 'to which the API server allocated it'
      : 'whose load balancer has it'
  return seniorityReason(owner, loser)
}
