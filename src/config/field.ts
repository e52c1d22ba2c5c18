// One field of a configuration file, and what may stand there.
import { ConfigError } from '../errors.js'
import type { Config, ConfigInput } from './config.js'
import { formatDuration, formatLimit, parseDuration, parseLimit } from './duration.js'

/** What YAML and JSON can say. */
export type Json = string | number | boolean | readonly Json[] | { readonly [key: string]: Json }

/** A field by its path in the document, such as `iptables.masqueradeBit`. */
export interface Field {
  readonly path: string
  /** Returns `input` with what is written, which is not null. Throws ConfigError with the path. */
  readonly take: (input: ConfigInput, written: unknown) => ConfigInput
  /** What a file says for that; undefined: nothing. */
  readonly show: (config: Config) => Json | undefined
  /** Paths of unknown fields inside of what is written. */
  readonly unknownIn: (written: unknown) => readonly string[]
}

/** A kind of value. `read` throws ConfigError with `path`. */
export interface FieldType<T> {
  readonly read: (path: string, written: unknown) => T
  readonly write: (value: T) => Json
  /** Paths of unknown fields inside of what is written at `path`; absent: there are no fields inside. */
  readonly unknownIn?: (path: string, written: unknown) => readonly string[]
}

export interface FieldUse<T> {
  readonly take: (input: ConfigInput, value: T) => ConfigInput
  readonly show: (config: Config) => T | undefined
}

export function field<T>(path: string, type: FieldType<T>, use: FieldUse<T>): Field {
  return {
    path,
    unknownIn: (written) => type.unknownIn?.(path, written) ?? [],
    take: (input, written) => use.take(input, type.read(path, written)),
    show: (config) => {
      const value = use.show(config)
      return value === undefined ? undefined : type.write(value)
    },
  }
}

/** A field whose zero is as good as nothing, as where Go fills a default into what is zero. */
export function defaultedField<T>(path: string, type: FieldType<T>, use: FieldUse<T>): Field {
  const take: FieldUse<T>['take'] = (input, value) =>
    value === 0 || value === '' ? input : use.take(input, value)
  return field(path, type, { ...use, take })
}

export const boolean: FieldType<boolean> = {
  read: (path, written) => {
    if (typeof written === 'boolean') return written
    throw refusal(path, 'true or false', written)
  },
  write: (value) => value,
}

export const text: FieldType<string> = {
  read: (path, written) => {
    if (typeof written === 'string') return written
    throw refusal(path, 'text (quote it)', written)
  },
  write: (value) => value,
}

/** int32 of Go. */
export const wholeNumber: FieldType<number> = {
  read: (path, written) => {
    if (typeof written === 'number' && (written | 0) === written) return written
    throw refusal(path, 'a whole number', written)
  },
  write: (value) => value,
}

/** Bits of a packet mark: a number, which YAML also takes as 0x107f, or the same as text. */
export const bits: FieldType<number> = {
  read: (path, written) => {
    const value = typeof written === 'string' ? parseBits(written) : written
    if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
    throw refusal(path, 'bits such as 0x107f', written)
  },
  write: (value) => `0x${value.toString(16)}`,
}

/** undefined: it is no number in hexadecimal (0x107f) or decimal form. */
function parseBits(written: string): number | undefined {
  return /^(?:0x[\da-f]{1,8}|\d{1,10})$/iu.test(written) ? Number(written) : undefined
}

/** float32 of Go. */
export const number: FieldType<number> = {
  read: (path, written) => {
    if (typeof written === 'number' && Number.isFinite(written)) return written
    throw refusal(path, 'a number', written)
  },
  write: (value) => value,
}

/** In milliseconds. */
export const duration: FieldType<number> = {
  read: (path, written) => {
    if (typeof written === 'string') return parseDuration(path, written)
    throw refusal(path, 'a duration such as 30s, 1m30s or 500ms', written)
  },
  write: formatDuration,
}

/** In milliseconds; Infinity: without limit. */
export const limit: FieldType<number> = {
  read: (path, written) => {
    if (typeof written === 'string') return parseLimit(path, written)
    throw refusal(path, 'a duration such as 30s, 1m30s or 500ms, or infinity', written)
  },
  write: formatLimit,
}

/** As Go prints it. */
export const durationText: FieldType<string> = {
  read: (path, written) => formatDuration(duration.read(path, written)),
  write: (value) => value,
}

/** The same; in a file also a number of nanoseconds (TimeOrMetaDuration of k8s.io/component-base). */
export const durationOrNanoseconds: FieldType<string> = {
  read: (path, written) =>
    Number.isSafeInteger(written) ? formatDuration(Number(written) / 1e6) : durationText.read(path, written),
  write: (value) => value,
}

/** Whether it is a Quantity of k8s.io/apimachinery that is not negative. */
export function isQuantity(amount: string): boolean {
  return /^\d+(?:\.\d*)?(?:[munkMGTPE]|[KMGTPE]i|[eE]\d+)?$/u.test(amount)
}

/** Of memory, such as 64Ki; in a file also a number. */
export const quantity: FieldType<string> = {
  read: (path, written) => {
    const amount = typeof written === 'number' ? String(written) : written
    if (typeof amount === 'string' && isQuantity(amount)) return amount
    throw refusal(path, 'an amount such as 0 or 64Ki', written)
  },
  write: (value) => value,
}

export const textList: FieldType<readonly string[]> = {
  read: (path, written) => {
    if (!Array.isArray(written)) throw refusal(path, 'a list', written)
    return written.map((item: unknown, index) => text.read(`${path}[${index}]`, item))
  },
  write: (value) => value,
}

/** A text in the file, entries separated by commas. */
export const commaList: FieldType<readonly string[]> = {
  read: (path, written) => {
    const value = text.read(path, written)
    return value === '' ? [] : value.split(',').map((entry) => entry.trim())
  },
  write: (value) => value.join(','),
}

/** A mapping of names to true or false. */
export const switches: FieldType<Readonly<Record<string, boolean>>> = {
  read: (path, written) => {
    if (!isMapping(written)) throw refusal(path, 'a mapping', written)
    const pairs = Object.entries(written)
    return Object.fromEntries(pairs.map(([name, value]) => [name, boolean.read(`${path}.${name}`, value)]))
  },
  write: (value) => value,
}

/** A list of `filePattern` and `verbosity`; in memory the text of the flag: `PATTERN=LEVEL,OTHER=LEVEL`. */
export const verbosities: FieldType<string> = {
  read: (path, written) => {
    if (!Array.isArray(written)) throw refusal(path, 'a list', written)
    return written.map((item: unknown, index) => readVerbosity(`${path}[${index}]`, item)).join(',')
  },
  write: (value) =>
    value
      .split(',')
      .filter((pair) => pair !== '')
      .map((pair) => {
        const [filePattern = '', verbosity = ''] = pair.split('=')
        return { filePattern, verbosity: Number(verbosity) }
      }),
  unknownIn: (path, written) =>
    (Array.isArray(written) ? written : []).flatMap((item: unknown, index) =>
      Object.keys(isMapping(item) ? item : {})
        .filter((name) => name !== 'filePattern' && name !== 'verbosity')
        .map((name) => `${path}[${index}].${name}`),
    ),
}

function readVerbosity(path: string, written: unknown): string {
  if (!isMapping(written)) throw refusal(path, 'a mapping', written)
  const { filePattern, verbosity } = written
  const pattern = text.read(`${path}.filePattern`, filePattern)
  if (!/^[^=,]+$/u.test(pattern)) throw refusal(`${path}.filePattern`, 'text without "=" and ","', pattern)
  const level = wholeNumber.read(`${path}.verbosity`, verbosity)
  if (level < 0) throw refusal(`${path}.verbosity`, 'a whole number from 0', level)
  return `${pattern}=${level}`
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What must stand at `path`, and what does. */
export function refusal(path: string, expected: string, written: unknown): ConfigError {
  return new ConfigError(path, `must be ${expected}, not ${describe(written)}`)
}

function describe(value: unknown): string {
  if (typeof value === 'string') return `the text ${JSON.stringify(value)}`
  if (Array.isArray(value)) return 'a list'
  return isMapping(value) ? 'a mapping' : String(value)
}
