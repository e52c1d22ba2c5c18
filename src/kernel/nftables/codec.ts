// Converts values of TypeScript to values of a stream, and back. A record has the fields of a policy of native/nftables/policy.h, in
// the same order. `signature` is the text for them in the addon's nftGrammar.
import { malformed, type StreamReader, type StreamWriter } from './stream.js'

export interface Codec<T> {
  readonly signature: string
  write(stream: StreamWriter, value: T): void
  /** Throws KernelError EPROTO. */
  read(stream: StreamReader): T
}

/** A field that may be absent. */
export interface OptionalCodec<T> extends Codec<T> {
  readonly isOptional: true
  /** The kernel's default, which it also sends in a dump. It is written and read as absent. */
  readonly absent?: T
}

type Fields = Readonly<Record<string, Codec<unknown>>>
type ValueOf<C> = C extends Codec<infer T> ? T : never
type OptionalKeys<F> = { [K in keyof F]: F[K] extends { isOptional: true } ? K : never }[keyof F]
/** The values of a record's fields. */
export type RecordOf<F> = {
  readonly [K in Exclude<keyof F, OptionalKeys<F>>]: ValueOf<F[K]>
} & { readonly [K in OptionalKeys<F>]?: ValueOf<F[K]> }

export interface RecordCodec<T> extends Codec<T> {
  /** Without the braces. */
  readonly fieldSignatures: string
}

/** A register: the index of its first four-byte word, 0 to 15, or the verdict register. */
export type NfRegister = number | 'verdict'

export const u32: Codec<number> = {
  signature: 'u32',
  write: (stream, value) => stream.u32(value >>> 0),
  read: (stream) => stream.u32(),
}

/** A signed number in a u32. */
export const s32: Codec<number> = { ...u32, read: (stream) => stream.u32() | 0 }

export const u64: Codec<number> = {
  signature: 'u64',
  write: (stream, value) => stream.u64(value),
  read: (stream) => stream.u64(),
}

export const text: Codec<string> = {
  signature: 'text',
  write: (stream, value) => stream.text(value),
  read: (stream) => stream.text(),
}

export const bytes: Codec<Uint8Array> = {
  signature: 'bytes',
  write: (stream, value) => stream.bytes(value),
  read: (stream) => stream.bytes(),
}

const verdictRegister = 16

export const register: Codec<NfRegister> = {
  signature: 'register',
  write: (stream, value) => stream.u32(value === 'verdict' ? verdictRegister : value),
  read: (stream) => {
    const word = stream.u32()
    return word === verdictRegister ? 'verdict' : word
  },
}

/** A number as its name. A number without a name stays a number. */
export function names<N extends string>(byName: Readonly<Record<N, number>>): Codec<N | number> {
  const byNumber = new Map<number, N>()
  for (const name of keysOf(byName)) byNumber.set(byName[name] >>> 0, name)
  return {
    signature: 'u32',
    write: (stream, value) => stream.u32((typeof value === 'string' ? byName[value] : value) >>> 0),
    read: (stream) => {
      const number = stream.u32()
      return byNumber.get(number) ?? number
    },
  }
}

function keysOf<N extends string>(values: Readonly<Record<N, unknown>>): readonly N[] {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the object's own keys
  return Object.keys(values) as N[]
}

export function optional<T>(codec: Codec<T>, absent?: T): OptionalCodec<T> {
  return { ...codec, isOptional: true, ...(absent === undefined ? {} : { absent }) }
}

export function list<T>(item: Codec<T>): Codec<readonly T[]> {
  return {
    signature: `[${item.signature}]`,
    write: (stream, values) => {
      stream.u32(values.length)
      for (const value of values) item.write(stream, value)
    },
    read: (stream) => {
      const count = stream.u32()
      const values: T[] = []
      for (let index = 0; index < count; index++) values.push(item.read(stream))
      return values
    },
  }
}

/** A u32 whose bit i means that field i is present, then the present fields. At most 32 fields. */
export function record<F extends Fields>(fields: F): RecordCodec<RecordOf<F>> {
  const entries = Object.entries(fields)
  const fieldSignatures = entries.map(([, codec]) => codec.signature).join(' ')
  return {
    signature: `{${fieldSignatures}}`,
    fieldSignatures,
    write: (stream, value) => {
      const presence = stream.size
      stream.u32(0)
      let present = 0
      for (const [index, [name, codec]] of entries.entries()) {
        const field: unknown = Reflect.get(value, name)
        if (field === undefined || field === absentValue(codec)) continue
        codec.write(stream, field)
        present |= 1 << index
      }
      stream.patch(presence, present >>> 0)
    },
    read: (stream) => {
      const present = stream.u32()
      const value: Record<string, unknown> = {}
      for (const [index, [name, codec]] of entries.entries()) {
        if ((present & (1 << index)) === 0) {
          if (!('isOptional' in codec)) throw malformed(`${name} is missing`)
          continue
        }
        const field = codec.read(stream)
        if (field !== absentValue(codec)) value[name] = field
      }
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every field was read by its codec
      return value as RecordOf<F>
    },
  }
}

/** `absent` of the codec; undefined: it has none. */
function absentValue(codec: Codec<unknown> | OptionalCodec<unknown>): unknown {
  return 'absent' in codec ? codec.absent : undefined
}
