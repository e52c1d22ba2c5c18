// The chains that choose the endpoint of a connection, from the sets of one list of endpoints.
import type { NfSet } from '../../../kernel/index.js'
import { type ChainPlan, type RulePlan, sorted } from './chain-plan.js'
import { type Choice, dnatBy, type Expressions, type Field, goTo, goToOneOf, isIn } from './expressions.js'
import { bucketOf, type EndpointSets } from './schema.js'

interface EndpointPlan {
  readonly key: readonly Field[]
  /** Numbers of endpoints in use. */
  readonly counts: ReadonlySet<number>
  readonly sets: EndpointSets
}

/** The chains that depend on one set alone, made once: a table with long lists has thousands, and a new number adds one or two. */
const plans = {
  counts: new WeakMap<NfSet, ChainPlan>(),
  blocks: new WeakMap<NfSet, ChainPlan>(),
  endpoints: new WeakMap<NfSet, ChainPlan>(),
}

/** Up to this number, one map leads to each endpoint. */
const mostDirect = 64
/** Endpoints of a block: above `mostDirect`, a map leads to whole blocks and to the endpoints of the rest. */
const blockSize = 16

/**
 * A chain per number of endpoints, which chooses an index; a chain per index, which translates; `dispatch` leads to them. A packet may
 * meet the former state of one set and the next state of another, and for a moment after a commit a new map of intervals finds nothing
 * (seen on 6.18). So each chain ends with the first endpoint, which every frontend has.
 *
 * The kernel checks a rule that looks up a map with each element of the map. So each map is in one rule, which is made with the map.
 */
export function endpointChains(plan: EndpointPlan): {
  readonly dispatch: readonly RulePlan[]
  readonly chains: readonly ChainPlan[]
} {
  const { sets } = plan
  const counts = sorted(plan.counts)
  const most = counts.at(-1)
  if (most === undefined) return { dispatch: [], chains: [] }
  const few = counts.filter((count) => bucketOf(count) === 0)
  const buckets = [...byBucket(counts)].map(([bucket, some]) => ({ set: sets.inBucket(bucket), some }))
  const first = toFirst(sets)
  const toCounts = (some: readonly number[]): readonly RulePlan[] =>
    some.map((count) => leadTo(plan, sets.withCount(count), countChain(sets, count)))
  return {
    dispatch: [...toCounts(few), ...buckets.map(({ set }) => leadTo(plan, set, chainOf(set))), first],
    chains: [
      ...buckets.map(({ set, some }) => ({ chain: chainOf(set), rules: [...toCounts(some), first] })),
      ...counts.map((count) =>
        once(plans.counts, sets.withCount(count), () => ({
          chain: countChain(sets, count),
          rules: count === 1 ? [first] : [{ expressions: choose(sets, count) }, first],
        })),
      ),
      ...blockChains(sets, counts),
      ...Array.from({ length: most }, (_, index) => endpointChain(plan, index)),
    ],
  }
}

function once(made: WeakMap<NfSet, ChainPlan>, set: NfSet, make: () => ChainPlan): ChainPlan {
  const plan = made.get(set) ?? make()
  made.set(set, plan)
  return plan
}

/** The numbers of each bucket that has a chain. */
function byBucket(counts: readonly number[]): ReadonlyMap<number, readonly number[]> {
  const buckets = new Map<number, number[]>()
  for (const count of counts) {
    const bucket = bucketOf(count)
    if (bucket === 0) continue
    const some = buckets.get(bucket)
    if (some === undefined) buckets.set(bucket, [count])
    else some.push(count)
  }
  return buckets
}

function toFirst({ endpointAt }: EndpointSets): RulePlan {
  return { expressions: goTo(chainOf(endpointAt(0))) }
}

function endpointChain({ sets, key }: EndpointPlan, index: number): ChainPlan {
  const set = sets.endpointAt(index)
  return once(plans.endpoints, set, () => ({
    chain: chainOf(set),
    rules: [{ expressions: dnatBy(set, key) }, ...(index === 0 ? [] : [toFirst(sets)])],
  }))
}

/** The chain of a set has its name. */
function chainOf({ set }: { readonly set: string }): string {
  return set
}

/** `service-with-3` */
function countChain({ withCount }: EndpointSets, count: number): string {
  return chainOf(withCount(count)).replace(/s-with-/u, '-with-')
}

/** `service-block-0` */
function blockChain({ endpointAt }: EndpointSets, block: number): string {
  return chainOf(endpointAt(block)).replace(/-endpoint-/u, '-block-')
}

function leadTo({ key }: EndpointPlan, set: Parameters<typeof isIn>[0], chain: string): RulePlan {
  return { expressions: [...isIn(set, key), ...goTo(chain)] }
}

/** Each endpoint is equally likely. */
function choose(sets: EndpointSets, count: number): Expressions {
  const blocks = count > mostDirect ? Math.floor(count / blockSize) : 0
  const choices: readonly Choice[] = [
    ...Array.from({ length: blocks }, (_, block) => ({ share: blockSize, chain: blockChain(sets, block) })),
    ...endpointChoices(sets, blocks * blockSize, count),
  ]
  return goToOneOf(sets.all, choices)
}

function endpointChoices(sets: EndpointSets, from: number, to: number): readonly Choice[] {
  return Array.from({ length: to - from }, (_, nth) => ({
    share: 1,
    chain: chainOf(sets.endpointAt(from + nth)),
  }))
}

function blockChains(sets: EndpointSets, counts: readonly number[]): readonly ChainPlan[] {
  const most = counts.at(-1) ?? 0
  const blocks = most > mostDirect ? Math.floor(most / blockSize) : 0
  return Array.from({ length: blocks }, (_, block) => {
    const from = block * blockSize
    return once(plans.blocks, sets.endpointAt(from), () => ({
      chain: blockChain(sets, block),
      rules: [
        { expressions: goToOneOf(sets.all, endpointChoices(sets, from, from + blockSize)) },
        toFirst(sets),
      ],
    }))
  })
}
