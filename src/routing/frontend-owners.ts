import type { ServicePortKey } from '../model/index.js'
import { type Claimant, standingOf } from './claim-order.js'
import { describeFrontend, type Frontend } from './frontend.js'
import { type ClaimConflict, FrontendClaims } from './frontend-claims.js'

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
