// The order of Services that have an equal right to a place, such as a port that two of them name (docs/adr/0007).

/** The facts about a Service that its place in the order depends on. Every node knows the same ones. */
export interface Seniority {
  /** `namespace/name`. */
  readonly service: string
  /** Unix seconds of the Service's creation. undefined: unknown, which counts as younger than any known time. */
  readonly createdSeconds?: number | undefined
}

/** Sorts the owner first: the older Service, then the name that is first bytewise. 0 only for equal names. */
export function compareSeniority(a: Seniority, b: Seniority): number {
  const [aSeconds, bSeconds] = [a.createdSeconds ?? Infinity, b.createdSeconds ?? Infinity]
  if (aSeconds !== bSeconds) return aSeconds < bSeconds ? -1 : 1
  if (a.service === b.service) return 0
  return a.service < b.service ? -1 : 1
}

/** Why the owner comes before the loser: a clause that follows the owner's name and a comma. */
export function seniorityReason(owner: Seniority, loser: Seniority): string {
  return owner.createdSeconds === loser.createdSeconds ? 'which sorts first' : 'which is older'
}
