// The structures of x_tables matches and targets, which nft_compat passes on as bytes. They have the layout of 64-bit little-endian
// machines (x86-64, arm64), and a size that is a multiple of eight.

/** A field at a fixed place of a structure. */
interface InfoField<T> {
  readonly at: number
  readonly length: number
  read(view: DataView): T
  write(view: DataView, value: T): void
}

type InfoFields = Readonly<Record<string, InfoField<number> | InfoField<string> | InfoField<Uint8Array>>>
type InfoValues<F> = { readonly [K in keyof F]: F[K] extends InfoField<infer T> ? T : never }

/** A match or target of a revision. */
export interface InfoLayout<V> {
  readonly name: string
  readonly revision: number
  /** Fields that are absent in `values` are 0. */
  encode(values: Partial<V>): Uint8Array
  /** undefined: a byte outside the fields differs from what `encode` writes there. */
  decode(info: Uint8Array): V | undefined
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Bytes that have the same value in every structure that Viaduct writes, by offset. All others are 0. */
type Constants = Readonly<Record<number, number>>

function bytesFrom(first: number, count: number, value: number): Constants {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [first + i, value]))
}

const u8 = (at: number): InfoField<number> => ({
  at,
  length: 1,
  read: (view) => view.getUint8(at),
  write: (view, value) => view.setUint8(at, value),
})

const u16 = (at: number): InfoField<number> => ({
  at,
  length: 2,
  read: (view) => view.getUint16(at, true),
  write: (view, value) => view.setUint16(at, value, true),
})

const be16 = (at: number): InfoField<number> => ({
  at,
  length: 2,
  read: (view) => view.getUint16(at),
  write: (view, value) => view.setUint16(at, value),
})

const u32 = (at: number): InfoField<number> => ({
  at,
  length: 4,
  read: (view) => view.getUint32(at, true),
  write: (view, value) => view.setUint32(at, value, true),
})

const bytes = (at: number, length: number): InfoField<Uint8Array> => ({
  at,
  length,
  read: (view) => new Uint8Array(view.buffer, view.byteOffset + at, length).slice(),
  write: (view, value) => new Uint8Array(view.buffer, view.byteOffset + at, length).set(value),
})

/** NUL-ended; `length` includes the NUL. The tools leave bytes of an earlier text after it. */
const text = (at: number, length: number): InfoField<string> => ({
  at,
  length,
  read: (view) => decoder.decode(bytes(at, length).read(view)).split('\0', 1)[0] ?? '',
  write: (view, value) => bytes(at, length).write(view, encoder.encode(value)),
})

/** The structure `name` of `revision` with `size` bytes. */
function info<const F extends InfoFields>(
  [name, revision, size]: readonly [name: string, revision: number, size: number],
  fields: F,
  constants: Constants = {},
): InfoLayout<InfoValues<F>> {
  const entries: readonly (readonly [string, InfoField<unknown>])[] = Object.entries(fields)
  const template = new Uint8Array(size)
  for (const [at, value] of Object.entries(constants)) template[Number(at)] = value
  const encode = (values: Partial<InfoValues<F>>): Uint8Array => {
    const made = template.slice()
    const view = new DataView(made.buffer)
    for (const [key, field] of entries) {
      const value: unknown = Reflect.get(values, key)
      if (value !== undefined) field.write(view, value)
    }
    return made
  }
  const decode = (found: Uint8Array): InfoValues<F> | undefined => {
    if (found.length !== size) return undefined
    const rest = found.slice()
    for (const [, { at, length }] of entries) rest.set(template.subarray(at, at + length), at)
    if (!Buffer.from(rest).equals(template)) return undefined
    const view = new DataView(found.buffer, found.byteOffset, size)
    const read = Object.fromEntries(entries.map(([key, field]) => [key, field.read(view)]))
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every field was read by its own row
    return read as InfoValues<F>
  }
  return { name, revision, encode, decode }
}

// The offsets are those of the headers linux/netfilter/xt_*.h. A pointer of the kernel is 0 in a dump.
export const matches = {
  tcp: info(['tcp', 0, 16], {
    sourceFrom: u16(0),
    sourceTo: u16(2),
    destinationFrom: u16(4),
    destinationTo: u16(6),
  }),
  udp: info(['udp', 0, 16], {
    sourceFrom: u16(0),
    sourceTo: u16(2),
    destinationFrom: u16(4),
    destinationTo: u16(6),
  }),
  // The iptables tools write 255 as the type of each of the four unused chunks. Flags: 1 source, 2 destination.
  sctp: info(
    ['sctp', 0, 296],
    { destinationFrom: u16(0), destinationTo: u16(2), sourceFrom: u16(4), sourceTo: u16(6), flags: u32(284) },
    { 268: 255, 271: 255, 274: 255, 277: 255 },
  ),
  mark: info(['mark', 1, 16], { value: u32(0), mask: u32(4), isInverted: u8(8) }),
  // XT_CONNTRACK_STATE is 1.
  conntrack: info(['conntrack', 3, 168], { isInverted: u16(148), states: u16(150) }, { 146: 1 }),
  // XT_CONNTRACK_STATUS is 64, IPS_CONFIRMED 8. Inverted.
  unconfirmed: info(['conntrack', 3, 168], {}, { 146: 64, 148: 64, 152: 8 }),
  addrtype: info(['addrtype', 1, 8], { source: u16(0), destination: u16(2), flags: u32(4) }),
  set: info(['set', 4, 48], { index: u16(0), dimensions: u8(2), flags: u8(3) }),
  bpf: info(['bpf', 1, 528], { length: u16(2), program: bytes(8, 512) }),
  // The tools write a count that only another mode has.
  statistic: info(['statistic', 0, 24], { probability: u32(4), unused: u32(12) }),
  recent: info(
    ['recent', 1, 232],
    { seconds: u32(0), action: u8(8), list: text(10, 200), mask: bytes(212, 16) },
    bytesFrom(212, 16, 255),
  ),
  comment: info(['comment', 0, 256], { comment: text(0, 256) }),
} as const

export const targets = {
  MARK: info(['MARK', 2, 8], { value: u32(0), mask: u32(4) }),
  // NF_NAT_RANGE_MAP_IPS and NF_NAT_RANGE_PROTO_SPECIFIED. One address and one port: minimum and maximum are the same.
  DNAT: info(
    ['DNAT', 2, 48],
    { address: bytes(4, 16), lastAddress: bytes(20, 16), port: be16(36), lastPort: be16(38) },
    { 0: 3 },
  ),
  'MASQUERADE ipv4': info(['MASQUERADE', 0, 24], { flags: u32(4) }, { 0: 1 }),
  'MASQUERADE ipv6': info(['MASQUERADE', 0, 40], { flags: u32(0) }),
  REJECT: info(['REJECT', 0, 8], { kind: u32(0) }),
  // No set to add to or to delete from, flag IPSET_FLAG_MAP_SKBMARK, no time-out.
  SET: info(
    ['SET', 3, 24],
    { index: u16(8), dimensions: u8(10), flags: u8(11) },
    { 0: 255, 1: 255, 4: 255, 5: 255, 13: 1, ...bytesFrom(16, 4, 255) },
  ),
} as const
