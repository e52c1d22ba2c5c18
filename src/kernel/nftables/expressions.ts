// The expressions of nf_tables rules, with the kernel's names (net/netfilter/nft_*.c). The fields have the order of the rows of
// native/nftables/expression_table.h. A register is the index of its first word among the sixteen four-byte words. An IPv4 address takes
// one word, an IPv6 address four. Each field of a concatenation starts a new word.
import {
  type Codec,
  bytes,
  names,
  optional,
  record,
  type RecordCodec,
  register,
  text,
  u32,
  u64,
} from './codec.js'
import { data, value } from './data.js'
import type { NfElements } from './elements.js'
import type { StreamReader, StreamWriter } from './stream.js'

/** An NfExpression inside another. Its type cannot be NfExpression, which would refer to itself. */
const stateful: Codec<{ readonly kind: string }> = {
  signature: 'expression',
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- NfExpression is the only type with a kind here
  write: (stream, nested) => writeExpression(stream, nested as NfExpression),
  read: (stream) => readExpression(stream),
}

const metaKeys = names({
  len: 0,
  protocol: 1,
  priority: 2,
  mark: 3,
  iif: 4,
  oif: 5,
  iifname: 6,
  oifname: 7,
  nfproto: 15,
  l4proto: 16,
  pkttype: 19,
  cgroup: 23,
} as const)

const ctKeys = names({
  state: 0,
  direction: 1,
  status: 2,
  mark: 3,
  expiration: 5,
  protocol: 10,
  'proto-src': 11,
  'proto-dst': 12,
  zone: 17,
  'ip saddr': 19,
  'ip daddr': 20,
  'ip6 saddr': 21,
  'ip6 daddr': 22,
} as const)

const comparisons = names({ '==': 0, '!=': 1, '<': 2, '<=': 3, '>': 4, '>=': 5 } as const)
const flags = optional(u32, 0)
const offset = optional(u32, 0)

/** The record of each expression. */
const shapes = {
  payload: record({
    to: register,
    base: names({ link: 0, network: 1, transport: 2 } as const),
    offset: u32,
    length: u32,
  }),
  /** Loads `to`, or sets the key from `from`. */
  meta: record({ to: optional(register), key: metaKeys, from: optional(register) }),
  /** As meta; `direction`: 0 original, 1 reply. */
  ct: record({ to: optional(register), key: ctKeys, direction: optional(u32), from: optional(register) }),
  /** `flags`: 1 source, 2 destination, 4 mark, 8 input, 16 output interface (NFTA_FIB_F_). */
  fib: record({
    to: register,
    result: names({ oif: 1, oifname: 2, type: 3 } as const),
    flags: u32,
  }),
  /** Without `to`: the rule matches only if the set has the key; with `flags` 1, only if it has not. */
  lookup: record({ set: text, from: register, to: optional(register), setId: optional(u32), flags }),
  /** A number below `modulus` plus `offset`, in host order. */
  numgen: record({
    to: register,
    modulus: u32,
    type: names({ inc: 0, random: 1 } as const),
    offset,
  }),
  hash: record({
    from: optional(register),
    to: register,
    length: optional(u32),
    modulus: u32,
    seed: optional(u32),
    offset,
    type: optional(names({ jenkins: 0, symmetric: 1 } as const), 'jenkins'),
  }),
  /** `flags`: 4 random, 8 persistent, 16 fully random (NF_NAT_RANGE_). */
  nat: record({
    type: names({ snat: 0, dnat: 1 } as const),
    family: names({ ipv4: 2, ipv6: 10 } as const),
    addressMin: optional(register),
    addressMax: optional(register),
    portMin: optional(register),
    portMax: optional(register),
    flags,
  }),
  masq: record({ flags, portMin: optional(register), portMax: optional(register) }),
  reject: record({
    type: names({ icmp: 0, 'tcp-reset': 1, icmpx: 2 } as const),
    code: optional(u32),
  }),
  counter: record({ bytes: optional(u64, 0), packets: optional(u64, 0) }),
  immediate: record({ to: register, data }),
  /** (from & mask) ^ xor; the shifts of `op` 1 and 2 take `data`. */
  bitwise: record({
    from: register,
    to: register,
    length: u32,
    mask: optional(value),
    xor: optional(value),
    op: offset,
    data: optional(value),
  }),
  byteorder: record({
    from: register,
    to: register,
    op: names({ ntoh: 0, hton: 1 } as const),
    length: u32,
    size: u32,
  }),
  /** Compares with memcmp: only numbers in network order compare by value. */
  cmp: record({ from: register, op: comparisons, value }),
  range: record({ from: register, op: names({ '==': 0, '!=': 1 } as const), min: value, max: value }),
  dynset: record({
    set: text,
    op: names({ add: 0, update: 1, delete: 2 } as const),
    key: register,
    data: optional(register),
    timeoutMs: optional(u64),
    expression: optional(stateful),
    flags,
  }),
  /** A named object of type 1 (counter), or that of a map's element. */
  objref: record({
    type: optional(u32),
    name: optional(text),
    from: optional(register),
    set: optional(text),
  }),
  limit: record({ rate: u64, perSeconds: u64, burst: optional(u32), type: offset, flags }),
  /** A match of x_tables (nft_compat); `info` is its structure. */
  match: record({ name: text, revision: u32, info: bytes }),
  target: record({ name: text, revision: u32, info: bytes }),
} as const

type Shapes = typeof shapes
type Kind = keyof Shapes
type ContentOf<C> = C extends RecordCodec<infer T> ? T : never

/**
 * A lookup may have its set with it: the `elements` of an anonymous set (anonymousSet), which the kernel makes and deletes with the
 * rule. `set` is then its name. Absent in a rule that was read: the set is not anonymous, or has fields that we do not know.
 */
interface WithElements {
  readonly elements?: NfElements
}

/** One expression of a rule. `other` is an expression without a record here. */
export type NfExpression =
  | { [K in Exclude<Kind, 'lookup'>]: { readonly kind: K } & ContentOf<Shapes[K]> }[Exclude<Kind, 'lookup'>]
  | ({ readonly kind: 'lookup' } & ContentOf<Shapes['lookup']> & WithElements)
  | { readonly kind: 'other'; readonly name: string; readonly data: Uint8Array }

export type NfExpressionOf<K extends NfExpression['kind']> = Extract<NfExpression, { kind: K }>

const kinds = Object.keys(shapes).filter((kind): kind is Kind => kind in shapes)
const codecs: readonly Codec<unknown>[] = Object.values(shapes)
/** Number of a kind in a stream; 0 is `other`. */
const numbers: ReadonlyMap<string, number> = new Map(kinds.map((kind, index) => [kind, index + 1]))

function writeExpression(stream: StreamWriter, expression: NfExpression): void {
  const number = numbers.get(expression.kind) ?? 0
  stream.u32(number)
  if (expression.kind === 'other') {
    stream.text(expression.name)
    stream.bytes(expression.data)
  } else {
    codecs[number - 1]?.write(stream, expression)
  }
}

function readExpression(stream: StreamReader): NfExpression {
  const number = stream.u32()
  const kind = kinds[number - 1]
  const codec = codecs[number - 1]
  if (kind === undefined || codec === undefined)
    return { kind: 'other', name: stream.text(), data: stream.bytes() }
  const content = codec.read(stream)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the kind's own codec read the content
  return canonical({ kind, ...(content as object) } as NfExpression)
}

/** One expression. `read` returns the canonical form. */
export const expression: Codec<NfExpression> = {
  signature: 'expression',
  write: writeExpression,
  read: readExpression,
}

// NF_NAT_RANGE_MAP_IPS and NF_NAT_RANGE_PROTO_SPECIFIED: the kernel sets them if the expression has the registers.
const impliedNatFlags = 1 | 2

/** The canonical form of an expression: without the registers that nft_nat_init() and nft_masq_init() add, and without implied flags. */
function canonical(given: NfExpression): NfExpression {
  if (given.kind === 'nat') {
    const { addressMax, portMax, flags: natFlags = 0, ...rest } = given
    const kept = natFlags & ~impliedNatFlags
    return {
      ...rest,
      ...(addressMax === undefined || addressMax === given.addressMin ? {} : { addressMax }),
      ...(portMax === undefined || portMax === given.portMin ? {} : { portMax }),
      ...(kept === 0 ? {} : { flags: kept }),
    }
  }
  if (given.kind === 'masq' && given.portMax === given.portMin) {
    const { portMax, ...rest } = given
    return portMax === undefined ? given : rest
  }
  return given
}

/** The canonical form without counts of packets and without the name of an anonymous set. */
export function comparable(given: NfExpression): NfExpression {
  if (given.kind === 'lookup' && given.elements !== undefined) {
    const { setId: _, ...rest } = given
    return { ...rest, set: '' }
  }
  return given.kind === 'counter' ? { kind: 'counter' } : canonical(given)
}

/** Lines of the addon's nftGrammar. */
export const expressionGrammar: readonly string[] = kinds.map(
  (kind) => `${kind}: ${shapes[kind].fieldSignatures}`,
)
