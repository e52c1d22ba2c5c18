// The fields of keys and data of sets: their types, lengths, and the userdata from which the nft tool prints them.
import { parseIpAddress, writeAddress } from '../../address.js'
import { BugError } from '../../errors.js'

interface FieldType {
  /** Number of the type in nft (enum datatypes), six bits. A concatenation packs the numbers of its fields. */
  readonly id: number
  readonly length: number
  /** NFTNL_UDATA_SET_KEYBYTEORDER: 1 host, 2 network order. */
  readonly byteOrder: 1 | 2
  /** The expression of a typeof clause, as nft 1.0.6 stores it in the set's userdata. */
  readonly source?: Uint8Array
}

/** A number of userdata: host order. */
function word(value: number): readonly number[] {
  return [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24]
}

/** An entry of userdata: type, length, value. */
export function entry(type: number, value: readonly number[]): readonly number[] {
  return [type, value.length, ...value]
}

/** Kind of the expression, and its numbers as entries 0, 1, .. (expr_ops.build_udata in nft). */
function source(kind: number, numbers: readonly number[]): Uint8Array {
  const values = numbers.flatMap((number, index) => entry(index, word(number)))
  return Uint8Array.from([...entry(0, word(kind)), ...entry(1, values)])
}

const payload = 7
const meta = 9
const numgen = 0x17
// PROTO_DESC_* of nft. The second number of a payload source is the index of the field in the header's template.
const ip = 12
const ip6 = 13
const transport = 11

const fieldTypes = {
  integer: { id: 4, length: 4, byteOrder: 1 },
  ipv4_addr: { id: 7, length: 4, byteOrder: 2 },
  ipv6_addr: { id: 8, length: 16, byteOrder: 2 },
  inet_proto: { id: 12, length: 1, byteOrder: 2 },
  inet_service: { id: 13, length: 2, byteOrder: 2 },
  mark: { id: 19, length: 4, byteOrder: 1 },
  ifname: { id: 41, length: 16, byteOrder: 1 },
  'ip saddr': { id: 7, length: 4, byteOrder: 2, source: source(payload, [ip, 11]) },
  'ip daddr': { id: 7, length: 4, byteOrder: 2, source: source(payload, [ip, 12]) },
  'ip6 saddr': { id: 8, length: 16, byteOrder: 2, source: source(payload, [ip6, 8]) },
  'ip6 daddr': { id: 8, length: 16, byteOrder: 2, source: source(payload, [ip6, 9]) },
  'th sport': { id: 13, length: 2, byteOrder: 2, source: source(payload, [transport, 1]) },
  'th dport': { id: 13, length: 2, byteOrder: 2, source: source(payload, [transport, 2]) },
  'meta l4proto': { id: 12, length: 1, byteOrder: 2, source: source(meta, [16]) },
  'meta mark': { id: 19, length: 4, byteOrder: 1, source: source(meta, [3]) },
  /** An index. nft prints the modulus, which has no other effect. */
  'numgen random mod 2': { id: 4, length: 4, byteOrder: 1, source: source(numgen, [1, 2, 0]) },
} as const satisfies Readonly<Record<string, FieldType>>

/**
 * A data type of nft, or an expression, whose type applies. If one field of a key has no data type in nft (an index of numgen), all
 * its fields must be expressions: nft 1.0.6 aborts when it lists a concatenation with a bare `integer`.
 */
export type NfField = keyof typeof fieldTypes

function typeOf(field: NfField): FieldType {
  return fieldTypes[field]
}

const typeNames: ReadonlyMap<number, NfField> = new Map(
  (['integer', 'ipv4_addr', 'ipv6_addr', 'inet_proto', 'inet_service', 'mark', 'ifname'] as const).map(
    (name) => [fieldTypes[name].id, name],
  ),
)

/** The data type of a field. */
export function typeName(field: NfField): NfField {
  return typeNames.get(fieldTypes[field].id) ?? 'integer'
}

export function fieldLength(field: NfField): number {
  return fieldTypes[field].length
}

/** Whether a set with these fields is declared by `typeof`. */
export function isTypeof(fields: readonly NfField[]): boolean {
  return fields.some((field) => typeOf(field).source !== undefined)
}

/** Length of a key or of data: each field of a concatenation is padded to four bytes. */
export function fieldsLength(fields: readonly NfField[]): number {
  if (fields.length === 1 && fields[0] !== undefined) return fieldLength(fields[0])
  return fields.reduce((sum, field) => sum + ((fieldLength(field) + 3) & ~3), 0)
}

const idBits = 6

/** NFTA_SET_KEY_TYPE, NFTA_SET_DATA_TYPE. */
export function fieldsId(fields: readonly NfField[]): number {
  return fields.reduce((id, field) => id * 2 ** idBits + fieldTypes[field].id, 0) >>> 0
}

/** The opposite of fieldsId(), with data types of nft. undefined: it has a type that we do not know. */
export function fieldsOf(id: number): readonly NfField[] | undefined {
  const fields: NfField[] = []
  for (let rest = id; rest > 0; rest >>>= idBits) {
    const field = typeNames.get(rest & (2 ** idBits - 1))
    if (field === undefined) return undefined
    fields.unshift(field)
  }
  return fields.length === 0 ? undefined : fields
}

/** NFTNL_UDATA_SET_KEYBYTEORDER of a key or of data; 0 for a concatenation. */
export function byteOrderOf(fields: readonly NfField[]): number {
  const [field] = fields
  return fields.length === 1 && field !== undefined ? fieldTypes[field].byteOrder : 0
}

const concatenation = 13

/** The userdata for the expressions of a typeof clause. undefined: the fields are not expressions. */
export function typeofUserdata(fields: readonly NfField[]): readonly number[] | undefined {
  const sources = fields.map((field) => typeOf(field).source)
  const [only] = sources
  if (sources.length === 1) return only === undefined ? undefined : [...only]
  if (!isTypeof(fields)) return undefined
  const parts = sources.flatMap((part, index) => entry(index, [...(part ?? [])]))
  return [...entry(0, word(concatenation)), ...entry(1, parts)]
}

/** A value of a field: an address, an interface's name, or a number. */
export type NfFieldValue = string | number

/**
 * Writes a key or data: addresses in network order, numbers in the byte order of their type. Throws BugError if a value does not fit
 * its field.
 */
export function packFields(fields: readonly NfField[], values: readonly NfFieldValue[]): Uint8Array {
  if (values.length !== fields.length)
    throw new BugError(`${values.length} values for the ${fields.length} fields ${fields.join(' . ')}`)
  const packed = new Uint8Array(fieldsLength(fields))
  let offset = 0
  for (const [index, field] of fields.entries()) {
    writeField(packed, offset, field, values[index] ?? 0)
    offset += (fieldLength(field) + 3) & ~3
  }
  return packed
}

function writeField(packed: Uint8Array, at: number, field: NfField, value: NfFieldValue): void {
  const { id, length, byteOrder } = fieldTypes[field]
  if (typeof value === 'string') {
    const isName = id === fieldTypes.ifname.id
    const content = isName ? new TextEncoder().encode(value) : addressBytes(value)
    if (content?.length !== length && !(isName && content !== undefined && content.length < length))
      throw new BugError(`${value} is no ${field}`)
    packed.set(content, at)
    return
  }
  if (length > 4 || value >= 2 ** (8 * length)) throw new BugError(`${value} is no ${field}`)
  for (let index = 0; index < length; index++) {
    const shift = 8 * (byteOrder === 1 ? index : length - 1 - index)
    packed[at + index] = value >>> shift
  }
}

function addressBytes(text: string): Uint8Array | undefined {
  const address = parseIpAddress(text)
  if (address === undefined) return undefined
  const bytes = new Uint8Array(16)
  writeAddress(address, bytes, 0)
  return text.includes(':') ? bytes : bytes.subarray(0, 4)
}
