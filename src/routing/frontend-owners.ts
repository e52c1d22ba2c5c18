// The owners of frontends, the claims of service ports on each, and the order of the claims (docs/adr/0007). The order depends on the
// objects alone: every node comes to the same owner.
import {
  type ServicePortKey,
  compareSeniority,
  type Seniority,
  seniorityReason,
  type ServicePort,
} from '../model/index.js'
import { hasAddress, type IpAddress } from '../address.js'
import { addressOf, describeFrontend, type Frontend, frontendsOf } from './frontend.js'
import { type Route, withoutFrontends } from './route.js'

export interface FrontendConflict extends ClaimConflict {
  /** The name that `describeFrontend` gives it. */
  readonly frontend: string
}

/** A frontend that a service port names, and does not get. */
export interface LostFrontend {
  readonly frontend: Frontend
  /** A service port, a part of the node or the cluster such as `the API server`, or another machine. */
  readonly owner: string
  /** A clause that follows the owner and a comma. */
  readonly reason: string
}

interface Contest {
  readonly frontend: Frontend
  readonly claims: FrontendClaims
}

const noNames: readonly string[] = []
const noneLost: readonly LostFrontend[] = []
const noPlaces: readonly IpAddress[] = []

/**
 * The owners of all frontends of one IP family. All service ports claim their frontends here, in every mode. The work of a claim grows
 * with its frontends.
 */
export class FrontendOwners {
  readonly #nodePortPlaces: () => readonly IpAddress[] | undefined
  /** By the names of the frontends. */
  readonly #owners = new Map<string, Claimant>()
  /** The frontends that several service ports claim, or claimed before the last `takeConflicts`, by name. */
  readonly #contests = new Map<string, Contest>()
  /** The frontends that a service port claims. */
  readonly #namesOf = new Map<ServicePortKey, readonly string[]>()
  /** Names of contested frontends that changed since the last `takeConflicts`. */
  readonly #changed = new Set<string>()

  /** `nodePortPlaces`: a node port is a frontend at each of these addresses; undefined: it is one frontend. Claims before a change are stale. */
  constructor(nodePortPlaces: () => readonly IpAddress[] | undefined = () => undefined) {
    this.#nodePortPlaces = nodePortPlaces
  }

  /** Number of claimed frontends. */
  get size(): number {
    return this.#owners.size
  }

  /** Replaces all claims of the service port. Returns the other service ports that gained or lost a frontend by it, once for each. */
  claim(claimant: Claimant, claimed: ClaimedRoute): readonly ServicePortKey[] {
    const frontends = claimedFrontends(claimed, this.#nodePortPlaces())
    const names = frontends.map(describeFrontend)
    const concerned: ServicePortKey[] = []
    for (const [i, frontend] of frontends.entries()) this.#put(names[i] ?? '', frontend, claimant, concerned)
    this.#replaceNames(claimant.key, names, concerned)
    return concerned
  }

  /** Removes all claims of the service port. Returns the service ports that gained a frontend by it. */
  release(key: ServicePortKey): readonly ServicePortKey[] {
    const concerned: ServicePortKey[] = []
    this.#replaceNames(key, noNames, concerned)
    return concerned
  }

  /**
   * The conflicts of the frontends that changed since the last call, and those that ended. `mayChange`: whether the service port has claims to
   * come. A frontend that it claims waits for a later call.
   */
  takeConflicts(mayChange: (key: ServicePortKey) => boolean = () => false): readonly FrontendConflict[] {
    if (this.#changed.size === 0) return []
    const conflicts: FrontendConflict[] = []
    const waiting: string[] = []
    for (const name of this.#changed) {
      const claims = this.#contests.get(name)?.claims
      if (claims?.claimants.some(mayChange) === true) {
        waiting.push(name)
        continue
      }
      for (const conflict of claims?.takeConflicts() ?? []) conflicts.push({ frontend: name, ...conflict })
      if (claims?.isContested === false) this.#contests.delete(name)
    }
    this.#changed.clear()
    for (const name of waiting) this.#changed.add(name)
    return conflicts
  }

  /** undefined: no service port claims the frontend. */
  ownerOf(frontend: Frontend): ServicePortKey | undefined {
    const [address] = frontend.kind === 'node-port' ? (this.#nodePortPlaces() ?? noPlaces) : noPlaces
    const place: Frontend = address === undefined ? frontend : { ...frontend, kind: 'address', address }
    return this.#owners.get(describeFrontend(place))?.key
  }

  /** The frontends of the service port that others have, as it names them: where a node port is lost at an address, the node port. */
  lostOf(port: ClaimedRoute & { readonly key: ServicePortKey }): readonly LostFrontend[] {
    if (this.#contests.size === 0) return noneLost
    const lost = this.#lostNames(port.key)
    if (lost.length === 0) return noneLost
    const own = frontendsOf(port)
    const ownNames = new Set(own.map(describeFrontend))
    const placeOf = (frontend: Frontend): string | undefined => {
      const name = describeFrontend(frontend)
      if (frontend.kind !== 'node-port' || lost.includes(name)) return name
      return lost.find(
        (each) => !ownNames.has(each) && this.#contests.get(each)?.frontend.port === frontend.port,
      )
    }
    return own.flatMap((frontend) => {
      const conflict = this.#contests.get(placeOf(frontend) ?? '')?.claims.conflictOf(port.key)
      return conflict === undefined ? [] : [{ frontend, ...conflict }]
    })
  }

  /** The route of a service port without the frontends that other ones have. undefined: none is left, nor a health check port. */
  without(decided: Route): Route | undefined {
    if (this.#contests.size === 0) return decided
    const lost = this.#lostNames(decided.key)
    if (lost.length === 0) return decided
    const frontends = lost.map((name) => this.#contests.get(name)?.frontend)
    const served = withoutFrontends(
      decided,
      frontends.filter((frontend) => frontend !== undefined),
      this.#nodePortPlaces(),
    )
    return served.healthCheckNodePort === 0 && frontendsOf(served).length === 0 ? undefined : served
  }

  #lostNames(key: ServicePortKey): readonly string[] {
    return (this.#namesOf.get(key) ?? noNames).filter((name) => this.#owners.get(name)?.key !== key)
  }

  #replaceNames(key: ServicePortKey, names: readonly string[], concerned: ServicePortKey[]): void {
    const former = this.#namesOf.get(key) ?? noNames
    if (areEqual(names, former)) return
    if (names.length > 0) this.#namesOf.set(key, names)
    else this.#namesOf.delete(key)
    const kept = former.length > 0 ? new Set(names) : undefined
    for (const name of former) if (kept?.has(name) !== true) this.#remove(name, key, concerned)
  }

  #put(name: string, frontend: Frontend, claimant: Claimant, concerned: ServicePortKey[]): void {
    const owner = this.#owners.get(name)
    const isAlone = owner === undefined || owner.key === claimant.key
    const contest = this.#contests.get(name) ?? (isAlone ? undefined : this.#open(name, frontend, owner))
    if (contest === undefined) {
      this.#owners.set(name, claimant)
      return
    }
    contest.claims.put(this.#claimOn(frontend, claimant))
    this.#settle(name, contest, { by: claimant.key, before: owner }, concerned)
  }

  #remove(name: string, key: ServicePortKey, concerned: ServicePortKey[]): void {
    const owner = this.#owners.get(name)
    const contest = this.#contests.get(name)
    if (contest !== undefined) {
      contest.claims.remove(key)
      this.#settle(name, contest, { by: key, before: owner }, concerned)
    } else if (owner?.key === key) this.#owners.delete(name)
  }

  #open(name: string, frontend: Frontend, owner: Claimant): Contest {
    const claims = new FrontendClaims()
    claims.put(this.#claimOn(frontend, owner))
    const contest = { frontend, claims }
    this.#contests.set(name, contest)
    return contest
  }

  #settle(
    name: string,
    { claims }: Contest,
    { by, before }: { readonly by: ServicePortKey; readonly before: Claimant | undefined },
    concerned: ServicePortKey[],
  ): void {
    const after = claims.owner?.claimant
    if (after === undefined) this.#owners.delete(name)
    else this.#owners.set(name, after)
    this.#changed.add(name)
    if (before?.key === after?.key) return
    for (const claimant of [before, after])
      if (claimant !== undefined && claimant.key !== by) concerned.push(claimant.key)
  }

  #claimOn(frontend: Frontend, claimant: Claimant): Claim {
    const address = addressOf(frontend)
    const isNodePort =
      address !== undefined &&
      frontend.port === claimant.nodePort &&
      hasAddress(this.#nodePortPlaces() ?? noPlaces, address)
    return {
      ...standingOf(frontend, claimant),
      ...(isNodePort && { origin: 'allocated' }),
      claimant,
    }
  }
}

/** The properties of a route that say which frontends its service port claims. */
type ClaimedRoute = Parameters<typeof frontendsOf>[0]

/** A health check port is no service port's own: the tracker knows the Service that has it. */
function claimedFrontends(
  claimed: ClaimedRoute,
  nodePortPlaces: readonly IpAddress[] | undefined,
): readonly Frontend[] {
  return frontendsOf(claimed).flatMap((frontend) =>
    frontend.kind === 'node-port' && nodePortPlaces !== undefined
      ? nodePortPlaces.map((address): Frontend => ({ ...frontend, kind: 'address', address }))
      : frontend,
  )
}

function areEqual(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((name, i) => name === others[i])
}

/** The claim of one service port on a frontend. */
interface Claim extends Standing {
  readonly claimant: Claimant
}

/** A service port that does not have a frontend that it claims, or that did not have it when conflicts were last taken. */
interface ClaimConflict {
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
class FrontendClaims {
  #owner: Claim | undefined
  /** The other claims, in their order; nearly always none. */
  #others: readonly Claim[] = noClaims
  /** The losers of the last `takeConflicts`. */
  #losers = noLosers

  /** undefined: no service port claims the frontend. */
  get owner(): Claim | undefined {
    return this.#owner
  }

  /** The service ports that claim the frontend. */
  get claimants(): readonly ServicePortKey[] {
    return this.#owner === undefined ? [] : [this.#owner, ...this.#others].map(({ route }) => route)
  }

  /** `takeConflicts` may return something. */
  get isContested(): boolean {
    return this.#others.length > 0 || this.#losers.size > 0
  }

  /** Adds the claim, or replaces the one of the same service port. */
  put(claim: Claim): void {
    const others = this.#claimsBut(claim.route)
    if (others.length === 0) this.#owner = claim
    else this.#replaceAll([...others, claim])
  }

  /** Does nothing if the service port has no claim. */
  remove(route: ServicePortKey): void {
    this.#replaceAll(this.#claimsBut(route))
  }

  /** The owner of the frontend, and the reason, for a service port that claims it and loses; undefined: it does not. */
  conflictOf(route: ServicePortKey): Pick<LostFrontend, 'owner' | 'reason'> | undefined {
    const owner = this.#owner
    const loser = this.#others.find((claim) => claim.route === route)
    if (owner === undefined || loser === undefined) return undefined
    return { owner: owner.route, reason: reasonOf(owner, loser) }
  }

  /** The present losers, and those of the last call. A loser is returned once more after its conflict ended. */
  takeConflicts(): readonly ClaimConflict[] {
    if (!this.isContested) return []
    const owner = this.#owner
    const conflicts: ClaimConflict[] = []
    for (const other of this.#others)
      if (owner !== undefined)
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

  #claimsBut(route: ServicePortKey): readonly Claim[] {
    const owner = this.#owner
    if (owner === undefined) return noClaims
    if (this.#others.length === 0) return owner.route === route ? noClaims : [owner]
    return [owner, ...this.#others].filter((claim) => claim.route !== route)
  }

  #replaceAll(claims: readonly Claim[]): void {
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
  'key' | 'service' | 'clusterIP' | 'loadBalancerIPs' | 'nodePort' | 'createdSeconds'
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
