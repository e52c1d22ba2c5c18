// The values in elements for which the table needs chains and sets.
import type { OwnList, StructureUse } from '../compile/chain-plan.js'
import { type NftSchema, numberedSet } from '../compile/schema.js'
import { absent, type FrontendState, splitSources } from './frontend-state.js'
import type { Packer } from './packed.js'

interface FrontendUses {
  readonly counts: Set<number>
  readonly shortCircuitCounts: Set<number>
  readonly ownLists: Set<OwnList>
}

/** Values in use since the last `clear`. A value stays when its last element goes: most come back soon. */
export class UsedValues implements StructureUse {
  readonly services: FrontendUses = emptyUses()
  readonly nodePorts: FrontendUses = emptyUses()
  readonly prefixLengths = new Set<number>()

  /** Grows with each new value. */
  get size(): number {
    return [...usesOf(this.services), ...usesOf(this.nodePorts), this.prefixLengths].reduce(
      (sum, { size }) => sum + size,
      0,
    )
  }

  /** The values of a frontend's elements. */
  note(state: FrontendState, isNodePort: boolean, { addressBytes }: Pick<Packer, 'addressBytes'>): void {
    if (state === absent) return
    const { counts, shortCircuitCounts, ownLists } = isNodePort ? this.nodePorts : this.services
    if (state.count > 0) counts.add(state.count)
    if (state.shortCircuitCount > 0) shortCircuitCounts.add(state.shortCircuitCount)
    if (state.chain !== '') ownLists.add('endpoints')
    if (state.shortCircuitChain !== '') ownLists.add('shortCircuit')
    if (state.sources !== '')
      for (const network of splitSources(state.sources, addressBytes))
        this.prefixLengths.add(network.charCodeAt(0))
  }

  /** The kernel has the set. */
  noteSet(schema: NftSchema, name: string): void {
    for (const kind of ['services', 'nodePorts'] as const)
      for (const list of ['endpoints', 'shortCircuit'] as const)
        if (schema[kind][list].ownChains.set === name) this[kind].ownLists.add(list)
    const found = numberedSet(schema, name)
    if (found === undefined) return
    const { kind, isNodePort, isShortCircuit, number } = found
    const uses = isNodePort ? this.nodePorts : this.services
    if (kind === 'sources') this.prefixLengths.add(number)
    // The number has sets for its bucket and for each index too.
    if (kind === 'withCount') (isShortCircuit ? uses.shortCircuitCounts : uses.counts).add(number)
  }

  clear(): void {
    for (const set of [...usesOf(this.services), ...usesOf(this.nodePorts), this.prefixLengths]) set.clear()
  }
}

function emptyUses(): FrontendUses {
  return { counts: new Set(), shortCircuitCounts: new Set(), ownLists: new Set() }
}

function usesOf(uses: FrontendUses): readonly Set<unknown>[] {
  return [uses.counts, uses.shortCircuitCounts, uses.ownLists]
}
