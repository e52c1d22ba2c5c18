// Sets of the schema that exist only while something needs them, by name. Names of some end with a number: a prefix length or an
// affinity time.
import { hostPrefixLength, type NfSet } from '../../../kernel/index.js'
import type { NftSchema } from '../compile/schema.js'

export interface NumberedSet {
  readonly kind: 'sources' | 'affinity'
  /** Prefix length, or seconds. */
  readonly number: number
  readonly isNodePort: boolean
  readonly set: NfSet
}

/** The set of this name that the table has while something needs it; undefined: the schema has no such set. */
export function occasionalSet(schema: NftSchema, name: string): NfSet | undefined {
  const { nodePortIPs, services, nodePorts } = schema
  const unnumbered = [nodePortIPs, services.sessionAffinity, nodePorts.sessionAffinity]
  return unnumbered.find(({ set }) => set === name) ?? numberedSet(schema, name)?.set
}

/** undefined: the schema has no such set. */
export function numberedSet(schema: NftSchema, name: string): NumberedSet | undefined {
  const number = Number(/-(\d{1,9})$/.exec(name)?.[1] ?? NaN)
  if (Number.isNaN(number)) return undefined
  const candidates: NumberedSet[] = [
    { kind: 'affinity', number, isNodePort: false, set: schema.services.affinityOf(number) },
    { kind: 'affinity', number, isNodePort: true, set: schema.nodePorts.affinityOf(number) },
  ]
  if (number <= hostPrefixLength(schema.table.family))
    candidates.push({ kind: 'sources', number, isNodePort: false, set: schema.allowedSources(number) })
  return candidates.find(({ set }) => set.set === name)
}
