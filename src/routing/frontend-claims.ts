import type { ServicePortKey } from '../model/index.js'
import { compareStandings, reasonOf, type Standing } from './claim-order.js'

/** The claim of one service port on a frontend. */
export interface Claim<T> extends Standing {
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
