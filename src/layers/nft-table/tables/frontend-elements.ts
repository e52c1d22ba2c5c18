// The elements by which the state of a frontend changes.
import { type FrontendSets, type NftSchema, shortCircuitOffset } from '../compile/schema.js'
import type { NfSet } from '../../../kernel/index.js'
import type { FrontendEntry } from './entries.js'
import { frontendFlags, type FrontendState, splitSources } from './frontend-state.js'
import { packCount, type PackedBytes, type Packer } from './packed.js'

export interface FlagSet {
  readonly flag: number
  readonly set: NfSet
}

/** The sets that say yes or no about frontends of a kind. */
export function flagSets(schema: NftSchema, isNodePort: boolean): readonly FlagSet[] {
  const { masqueraded, rejected, dropped } = setsOf(schema, isNodePort)
  const common = [
    { flag: frontendFlags.masqueraded, set: masqueraded },
    { flag: frontendFlags.rejected, set: rejected },
    { flag: frontendFlags.dropped, set: dropped },
  ]
  return isNodePort ? common : [...common, { flag: frontendFlags.firewalled, set: schema.firewalledServices }]
}

export function setsOf(schema: NftSchema, isNodePort: boolean): FrontendSets {
  return isNodePort ? schema.nodePorts : schema.services
}

/** An element: its key, and its data in a map. */
export interface PackedElement {
  readonly key: PackedBytes
  readonly data?: PackedBytes
}

/** Elements whose keys end with consecutive indexes of numgen. */
export interface PackedRun {
  /** The key of each element without its last word, the index. */
  readonly key: PackedBytes
  /** The index of the first element. */
  readonly index: number
  /** Number of elements. */
  readonly count: number
  /** Data of the elements, one after the other from this place on. Elements to delete have none. */
  readonly data: PackedBytes
  readonly from: number
}

/** A transaction, as it takes elements of an object. */
export interface ElementChanges {
  add(set: NfSet, owner: FrontendEntry, element: PackedElement): void
  remove(set: NfSet, owner: FrontendEntry, element: PackedElement): void
  addRun(set: NfSet, owner: FrontendEntry, run: PackedRun): void
  removeRun(set: NfSet, owner: FrontendEntry, run: PackedRun): void
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
  const endpoints = { plan, entry, set: sets.endpoints, endpointBytes: layout.packer.endpointBytes }
  planEndpoints(endpoints, [before.endpoints, target.endpoints], 0)
  planEndpoints(endpoints, [before.shortCircuit, target.shortCircuit], shortCircuitOffset)
  planNumber(plan, entry, sets.counts, [before.count, target.count])
  const shortCircuits = [before.shortCircuitCount, target.shortCircuitCount] as const
  planNumber(plan, entry, sets.shortCircuitCounts, shortCircuits)
  if (before.flags !== target.flags) {
    for (const { flag, set } of layout.flagSets[isNodePort ? 'nodePorts' : 'services'])
      planMember({ plan, entry, set, key: id }, (before.flags & flag) !== 0, (target.flags & flag) !== 0)
  }
  if (before.affinitySeconds !== target.affinitySeconds) {
    if (before.affinitySeconds > 0) plan.remove(sets.affinityOf(before.affinitySeconds), entry, { key: id })
    if (target.affinitySeconds > 0) plan.add(sets.affinityOf(target.affinitySeconds), entry, { key: id })
  }
  if (before.sources !== target.sources) planSources(plan, layout, entry, target.sources)
}

/** A change of one frontend, in a transaction. */
interface Change {
  readonly plan: ElementChanges
  readonly entry: FrontendEntry
}

function planEndpoints(
  { plan, entry, set, endpointBytes }: Change & { readonly set: NfSet; readonly endpointBytes: number },
  [before, after]: readonly [PackedBytes, PackedBytes],
  offset: number,
): void {
  if (before === after) return
  const key = entry.id
  const common = Math.min(before.length, after.length)
  for (let from = 0; from < common; from += endpointBytes) {
    const to = from + endpointBytes
    if (isSamePart(before, after, from, to)) continue
    const changed = { key, index: offset + from / endpointBytes, count: 1, data: after, from }
    plan.removeRun(set, entry, changed)
    plan.addRun(set, entry, changed)
  }
  const count = Math.abs(before.length - after.length) / endpointBytes
  const rest = { key, index: offset + common / endpointBytes, count, data: after, from: common }
  if (before.length > common) plan.removeRun(set, entry, rest)
  if (after.length > common) plan.addRun(set, entry, rest)
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

function planNumber(
  plan: ElementChanges,
  entry: FrontendEntry,
  set: NfSet,
  [before, after]: readonly [number, number],
): void {
  if (before === after) return
  if (before > 0) plan.remove(set, entry, { key: entry.id })
  if (after > 0) plan.add(set, entry, { key: entry.id, data: packCount(after) })
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
