// Anonymous sets: a lookup of a rule has its set, or map, with it. The kernel names the set, and deletes it with the rule.
import type { NfElements } from './elements.js'
import type { NfExpression } from './expressions.js'
import { type NfField, typeName } from './fields.js'
import type { NfSet, NfTableKey } from './sets.js'

/** The kernel replaces `%d`: nf_tables_set_alloc_name() of net/netfilter/nf_tables_api.c. These are the names that nft uses. */
const names = { set: '__set%d', map: '__map%d' } as const

const madeName = /^__(set|map)\d+$/

/**
 * The set of a lookup's `elements`: `{ 0 : goto a, 1 : goto b }` in nft's syntax. With `interval`, keys are in network order
 * (byteorder), as in each set of intervals.
 */
export function anonymousSet(
  { family, table }: NfTableKey,
  { key, data, isInterval = false }: Pick<NfSet, 'key' | 'data'> & { readonly isInterval?: boolean },
): NfSet {
  return {
    family,
    table,
    set: names[data === undefined ? 'set' : 'map'],
    key,
    ...(data === undefined ? {} : { data }),
    flags: isInterval ? ['anonymous', 'constant', 'interval'] : ['anonymous', 'constant'],
  }
}

/** Whether the kernel made this name for an anonymous set. */
export function isAnonymousName(set: string): boolean {
  return madeName.test(set)
}

/** The elements that a lookup has with it. */
export function elementsOfLookup(expression: NfExpression): NfElements | undefined {
  return expression.kind === 'lookup' ? expression.elements : undefined
}

/** `ipv4_addr . inet_service` */
function types(fields: readonly NfField[]): string {
  return fields.map(typeName).join(' . ')
}

/** A text that is equal for anonymous sets with the same fields and elements, in any order. The name and the size may differ. */
export function anonymousContent(elements: NfElements): string {
  const { key, data, flags = [] } = elements.set
  const texts = Array.from({ length: elements.length }, (_, index) => elementContent(elements, index))
  const fields = typeof data === 'object' ? types(data) : data
  return [types(key), fields, flags.toSorted().join(), ...texts.toSorted()].join('\n')
}

function elementContent(elements: NfElements, index: number): string {
  const ends = [hex(elements.key(index)), hex(elements.keyEnd(index))].join('-')
  if (elements.isIntervalEnd(index)) return `${ends} end`
  const { data } = elements.set
  if (data === undefined) return ends
  if (data === 'counter') return `${ends} ${elements.counter(index)}`
  if (data !== 'verdict') return `${ends} ${hex(elements.data(index))}`
  const { code, chain = '' } = elements.verdict(index)
  return `${ends} ${code} ${chain}`
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
