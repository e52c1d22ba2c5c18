// Prints elements of sets and maps in nft's syntax.
import type { NfElements } from './elements.js'
import type { NfVerdict } from './data.js'
import type { NfField } from './fields.js'
import type { NfSet } from './sets.js'
import { bigEndian, printFields, printTime, quote } from './print-values.js'

export function printVerdict({ code, chain }: NfVerdict): string {
  return chain === undefined ? String(code) : `${code} ${chain}`
}

/** Each element as text. With `isDeleted` without data, as in a deletion. */
export function printElements(elements: NfElements, isDeleted = false): readonly string[] {
  const { set } = elements
  const printed: string[] = []
  for (let index = 0; index < elements.length; index++) {
    if (elements.isIntervalEnd(index)) continue
    const time = elements.timeoutMs(index)
    const data = set.data === undefined || isDeleted ? '' : ` : ${printData(elements, index)}`
    const left = isDeleted ? 0 : elements.expirationMs(index)
    const times = `${time === 0 ? '' : ` timeout ${printTime(time)}`}${left === 0 ? '' : ` expires ${printTime(left)}`}`
    printed.push(`${printKey(elements, index)}${times}${data}`)
  }
  return printed
}

/** A key or an interval. An interval of one field ends before the key of the next element, and has numbers in network order. */
function printKey(elements: NfElements, index: number): string {
  const { set } = elements
  const key = printFields(set.key, elements.key(index))
  if (set.flags?.includes('interval') !== true) return key
  if (set.key.length > 1) return printRanges(set.key, elements.key(index), elements.keyEnd(index))
  const first = printBound(set, elements.key(index))
  if (index + 1 >= elements.length) return first
  const last = printBound(set, decremented(elements.key(index + 1)))
  return last === first ? first : `${first}-${last}`
}

function printBound({ key }: NfSet, bytes: Uint8Array): string {
  const [field] = key
  return field === 'integer' ? String(bigEndian(bytes)) : printFields(key, bytes)
}

function printRanges(fields: readonly NfField[], from: Uint8Array, to: Uint8Array): string {
  const ends = printFields(fields, to).split(' . ')
  const starts = printFields(fields, from).split(' . ')
  return starts
    .map((start, index) => (start === ends[index] ? start : `${start}-${ends[index] ?? ''}`))
    .join(' . ')
}

/** The previous key, in network order. */
function decremented(key: Uint8Array): Uint8Array {
  const before = key.slice()
  for (let index = before.length - 1; index >= 0; index--) {
    const byte = before[index] ?? 0
    before[index] = byte - 1
    if (byte > 0) break
  }
  return before
}

function printData(elements: NfElements, index: number): string {
  const { data } = elements.set
  if (data === 'verdict') return printVerdict(elements.verdict(index))
  if (data === 'counter') return quote(elements.counter(index))
  return printFields(data ?? [], elements.data(index))
}
