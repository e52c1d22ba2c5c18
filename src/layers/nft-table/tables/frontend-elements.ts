// The elements by which the state of a frontend changes.
import type { EndpointSets, FrontendSets, NftSchema } from '../compile/schema.js'
import type { NfSet } from '../../../kernel/index.js'
import type { FrontendEntry } from './entries.js'
import { frontendFlags, type FrontendState, holeOf, splitSources } from './frontend-state.js'
import type { PackedBytes, Packer } from './packed.js'

export interface FlagSet {
  readonly flag: number
  readonly set: NfSet
}

/** The sets that say yes or no about frontends of a kind. */
export function flagSets(schema: NftSchema, isNodePort: boolean): readonly FlagSet[] {
  const { endpoints, shortCircuit, masqueraded, rejected, dropped } = setsOf(schema, isNodePort)
  const common = [
    { flag: frontendFlags.endpoints, set: endpoints.all },
    { flag: frontendFlags.shortCircuit, set: shortCircuit.all },
    { flag: frontendFlags.ownEndpoints, set: endpoints.withOwnChain },
    { flag: frontendFlags.ownShortCircuit, set: shortCircuit.withOwnChain },
    { flag: frontendFlags.masqueraded, set: masqueraded },
    { flag: frontendFlags.rejected, set: rejected },
    { flag: frontendFlags.dropped, set: dropped },
  ]
  return isNodePort ? common : [...common, { flag: frontendFlags.firewalled, set: schema.firewalledServices }]
}

export function setsOf(schema: NftSchema, isNodePort: boolean): FrontendSets {
  return isNodePort ? schema.nodePorts : schema.services
}

/** An element: its key, and in a map its data, which begins at `from`, or the chain that it leads to. */
export interface PackedElement {
  readonly key: PackedBytes
  readonly data?: PackedBytes
  readonly from?: number
  readonly chain?: string
}

/** A transaction, as it takes elements of an object. */
export interface ElementChanges {
  add(set: NfSet, owner: FrontendEntry, element: PackedElement): void
  remove(set: NfSet, owner: FrontendEntry, element: PackedElement): void
}

/** The layout of the elements of one family. */
export interface ElementLayout {
  readonly schema: NftSchema
  readonly packer: Packer
  readonly flagSets: Readonly<Record<'services' | 'nodePorts', readonly FlagSet[]>>
}

/** Adds the elements that lead from the frontend's acknowledged state to `target`. */
export function planFrontend(
  plan: ElementChanges,
  layout: ElementLayout,
  entry: FrontendEntry,
  target: FrontendState,
): void {
  const { acknowledged: before, id, isNodePort } = entry
  const sets = setsOf(layout.schema, isNodePort)
  const { endpointBytes } = layout.packer
  const change = { plan, entry, endpointBytes }
  planEndpoints(change, sets.endpoints, [before.endpoints, target.endpoints])
  planEndpoints(change, sets.shortCircuit, [before.shortCircuit, target.shortCircuit])
  planNumber(change, sets.endpoints.inBucket, [before.bucket, target.bucket])
  planNumber(change, sets.endpoints.withCount, [before.count, target.count])
  planNumber(change, sets.shortCircuit.inBucket, [before.shortCircuitBucket, target.shortCircuitBucket])
  planNumber(change, sets.shortCircuit.withCount, [before.shortCircuitCount, target.shortCircuitCount])
  if (before.flags !== target.flags) {
    for (const { flag, set } of layout.flagSets[isNodePort ? 'nodePorts' : 'services'])
      planMember({ plan, entry, set, key: id }, (before.flags & flag) !== 0, (target.flags & flag) !== 0)
  }
  planChain(change, sets.endpoints.ownChains, [before.chain, target.chain])
  planChain(change, sets.shortCircuit.ownChains, [before.shortCircuitChain, target.shortCircuitChain])
  if (before.sources !== target.sources) planSources(plan, layout, entry, target.sources)
}

/** A change of one frontend, in a transaction. */
interface Change {
  readonly plan: ElementChanges
  readonly entry: FrontendEntry
}

/** An endpoint that stays at its index has no operation. */
function planEndpoints(
  { plan, entry, endpointBytes }: Change & { readonly endpointBytes: number },
  sets: EndpointSets,
  [before, after]: readonly [PackedBytes, PackedBytes],
): void {
  if (before === after) return
  const key = entry.id
  const hole = holeOf(endpointBytes)
  const most = Math.max(before.length, after.length)
  for (let from = 0; from < most; from += endpointBytes) {
    if (from < before.length && from < after.length && isSamePart(before, after, from, from + endpointBytes))
      continue
    const set = sets.endpointAt(from / endpointBytes)
    if (from < before.length && !before.startsWith(hole, from)) plan.remove(set, entry, { key })
    if (from < after.length && !after.startsWith(hole, from)) plan.add(set, entry, { key, data: after, from })
  }
}

function planSources(
  plan: ElementChanges,
  { schema, packer: { addressBytes } }: ElementLayout,
  entry: FrontendEntry,
  after: PackedBytes,
): void {
  const former = new Set(splitSources(entry.acknowledged.sources, addressBytes))
  const wanted = new Set(splitSources(after, addressBytes))
  for (const network of new Set([...former, ...wanted])) {
    const set = schema.allowedSources(network.charCodeAt(0))
    const key = entry.id + network.slice(1)
    planMember({ plan, entry, set, key }, former.has(network), wanted.has(network))
  }
}

/** Moves the frontend from the set of a number to the set of another; 0: none. */
function planNumber(
  { plan, entry }: Change,
  setOf: (number: number) => NfSet,
  [before, after]: readonly [number, number],
): void {
  if (before === after) return
  if (before > 0) plan.remove(setOf(before), entry, { key: entry.id })
  if (after > 0) plan.add(setOf(after), entry, { key: entry.id })
}

/** Lets the frontend lead to another chain; empty: to none. */
function planChain({ plan, entry }: Change, map: NfSet, [before, after]: readonly [string, string]): void {
  if (before === after) return
  if (before !== '') plan.remove(map, entry, { key: entry.id, chain: before })
  if (after !== '') plan.add(map, entry, { key: entry.id, chain: after })
}

function planMember(
  at: {
    readonly plan: ElementChanges
    readonly entry: FrontendEntry
    readonly set: NfSet
    readonly key: PackedBytes
  },
  isIn: boolean,
  isWanted: boolean,
): void {
  const { plan, entry, set, key } = at
  if (isIn && !isWanted) plan.remove(set, entry, { key })
  if (!isIn && isWanted) plan.add(set, entry, { key })
}

function isSamePart(a: PackedBytes, b: PackedBytes, from: number, to: number): boolean {
  for (let index = from; index < to; index++) if (a.charCodeAt(index) !== b.charCodeAt(index)) return false
  return true
}
