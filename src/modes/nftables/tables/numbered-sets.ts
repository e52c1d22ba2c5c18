// Sets of the schema whose name ends with a number: those of a prefix length or of an affinity time.
import { hostPrefixLength, type NfSet } from '../../../kernel/index.js'
import type { NftSchema } from '../compile/schema.js'

export interface NumberedSet {
  readonly kind: 'sources' | 'affinity'
  /** Prefix length, or seconds. */
  readonly number: number
  readonly isNodePort: boolean
  readonly set: NfSet
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
