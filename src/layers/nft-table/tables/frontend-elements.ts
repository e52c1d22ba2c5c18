// The elements by which the state of a frontend changes.
import { type FrontendSets, type NftSchema, shortCircuitOffset } from '../compile/schema.js'
import type { NfSet } from '../../../kernel/index.js'
import type { ElementBatch } from './element-batch.js'
import type { FrontendEntry } from './entries.js'
import { frontendFlags, type FrontendState, splitSources } from './frontend-state.js'
import { packCount, type PackedBytes, type Packer } from './packed.js'

interface FlagSet {
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

/** Plans the changes of frontends of one family. */
export class FrontendPlanner {
  readonly #schema: NftSchema
  readonly #packer: Packer
  readonly #flagSets: Readonly<Record<'services' | 'nodePorts', readonly FlagSet[]>>

  constructor(schema: NftSchema, packer: Packer) {
    this.#schema = schema
    this.#packer = packer
    this.#flagSets = { services: flagSets(schema, false), nodePorts: flagSets(schema, true) }
  }

  /** Adds the elements that lead from the acknowledged state to `target`. */
  plan(batch: ElementBatch, entry: FrontendEntry, target: FrontendState): void {
    const { acknowledged: before, id, isNodePort } = entry
    const sets = setsOf(this.#schema, isNodePort)
    const endpoints = { batch, entry, set: sets.endpoints }
    this.#planEndpoints(endpoints, [before.endpoints, target.endpoints], 0)
    this.#planEndpoints(endpoints, [before.shortCircuit, target.shortCircuit], shortCircuitOffset)
    planNumber(batch, entry, sets.counts, [before.count, target.count])
    const shortCircuits = [before.shortCircuitCount, target.shortCircuitCount] as const
    planNumber(batch, entry, sets.shortCircuitCounts, shortCircuits)
    if (before.flags !== target.flags) {
      for (const { flag, set } of this.#flagSets[isNodePort ? 'nodePorts' : 'services'])
        planMember({ batch, entry, set, key: id }, (before.flags & flag) !== 0, (target.flags & flag) !== 0)
    }
    if (before.affinitySeconds !== target.affinitySeconds) {
      if (before.affinitySeconds > 0)
        batch.remove(sets.affinityOf(before.affinitySeconds), entry, { key: id })
      if (target.affinitySeconds > 0) batch.add(sets.affinityOf(target.affinitySeconds), entry, { key: id })
    }
    if (before.sources !== target.sources) this.#planSources(batch, entry, [before.sources, target.sources])
  }

  #planEndpoints(
    {
      batch,
      entry,
      set,
    }: { readonly batch: ElementBatch; readonly entry: FrontendEntry; readonly set: NfSet },
    [before, after]: readonly [PackedBytes, PackedBytes],
    offset: number,
  ): void {
    if (before === after) return
    const { endpointBytes } = this.#packer
    const key = entry.id
    const common = Math.min(before.length, after.length)
    for (let from = 0; from < common; from += endpointBytes) {
      const to = from + endpointBytes
      if (isSamePart(before, after, from, to)) continue
      const changed = { key, index: offset + from / endpointBytes, count: 1 }
      batch.removeRun(set, entry, { ...changed, data: '' })
      batch.addRun(set, entry, { ...changed, data: after.slice(from, to) })
    }
    const count = Math.abs(before.length - after.length) / endpointBytes
    const rest = { key, index: offset + common / endpointBytes, count }
    if (before.length > common) batch.removeRun(set, entry, { ...rest, data: '' })
    if (after.length > common) batch.addRun(set, entry, { ...rest, data: after.slice(common) })
  }

  #planSources(
    batch: ElementBatch,
    entry: FrontendEntry,
    [before, after]: readonly [PackedBytes, PackedBytes],
  ): void {
    const { addressBytes } = this.#packer
    const former = new Set(splitSources(before, addressBytes))
    const wanted = new Set(splitSources(after, addressBytes))
    for (const network of new Set([...former, ...wanted])) {
      const set = this.#schema.allowedSources(network.charCodeAt(0))
      const key = entry.id + network.slice(1)
      planMember({ batch, entry, set, key }, former.has(network), wanted.has(network))
    }
  }
}

function planNumber(
  batch: ElementBatch,
  entry: FrontendEntry,
  set: NfSet,
  [before, after]: readonly [number, number],
): void {
  if (before === after) return
  if (before > 0) batch.remove(set, entry, { key: entry.id })
  if (after > 0) batch.add(set, entry, { key: entry.id, data: packCount(after) })
}

function planMember(
  at: {
    readonly batch: ElementBatch
    readonly entry: FrontendEntry
    readonly set: NfSet
    readonly key: PackedBytes
  },
  isIn: boolean,
  isWanted: boolean,
): void {
  const { batch, entry, set, key } = at
  if (isIn && !isWanted) batch.remove(set, entry, { key })
  if (!isIn && isWanted) batch.add(set, entry, { key })
}

function isSamePart(a: PackedBytes, b: PackedBytes, from: number, to: number): boolean {
  for (let index = from; index < to; index++) if (a.charCodeAt(index) !== b.charCodeAt(index)) return false
  return true
}
