// Kinds of setting values: how a flag and a field of a configuration file write each of them.
import { ConfigError } from '../errors.js'
import { formatDuration, formatLimit, parseDuration, parseLimit } from './duration.js'

/** Values of YAML and JSON. */
export type Json = string | number | boolean | readonly Json[] | { readonly [key: string]: Json }

/** One kind of value. `parse` and `read` throw ConfigError with `path`. */
export interface ValueType<T> {
  /** Word for the value in the help; undefined for booleans, whose flags need no value. */
  readonly metavar: string | undefined
  /** Reads the text of a flag. */
  parse(path: string, text: string): T
  /** Reads a value of a file, which is not null. */
  read(path: string, written: unknown): T
  /** The value of a file that `read` reads. */
  write(value: T): Json
  /** Go's zero; absent: 0 or blank text. */
  readonly zero?: T
  /** The text of a flag, as Go prints it; absent: String(). */
  format?(value: T): string
  /** The value of a repeated flag; absent: the last one counts. */
  add?(former: T, next: T): T
  /** Paths of unknown fields inside a value of a file; absent: the value has no fields. */
  unknownIn?(path: string, written: unknown): readonly string[]
}

/** The same type for a setting that may have no value. */
export function optional<T>(type: ValueType<T>): ValueType<T | undefined> {
  return type
}

const asIs = <T>(value: T): T => value

// strconv.ParseBool of Go.
const trueTexts = ['true', 'True', 'TRUE', 't', 'T', '1']
const falseTexts = ['false', 'False', 'FALSE', 'f', 'F', '0']

export const boolean: ValueType<boolean> = {
  metavar: undefined,
  parse: (path, text) => {
    if (trueTexts.includes(text)) return true
    if (falseTexts.includes(text)) return false
    throw refusal(path, 'true or false', text)
  },
  read: (path, written) => {
    if (typeof written === 'boolean') return written
    throw fileRefusal(path, 'true or false', written)
  },
  write: asIs,
}

export const text: ValueType<string> = {
  metavar: 'TEXT',
  parse: (_path, written) => written,
  read: (path, written) => {
    if (typeof written === 'string') return written
    throw fileRefusal(path, 'text (quote it)', written)
  },
  write: asIs,
}

/** int32 of Go. */
function readWholeNumber(path: string, written: unknown): number {
  if (typeof written === 'number' && (written | 0) === written) return written
  throw fileRefusal(path, 'a whole number', written)
}

export const wholeNumber: ValueType<number> = {
  metavar: 'NUMBER',
  parse: (path, written) => {
    if (/^\d{1,9}$/u.test(written)) return Number(written)
    throw refusal(path, 'a whole number from 0', written)
  },
  read: readWholeNumber,
  write: asIs,
}

/** A whole number that may be negative. */
export const signedNumber: ValueType<number> = {
  ...wholeNumber,
  parse: (path, written) => {
    if (/^[+-]?\d{1,9}$/u.test(written)) return Number(written)
    throw refusal(path, 'a whole number', written)
  },
}

/** float32 of Go. */
export const decimalNumber: ValueType<number> = {
  metavar: 'NUMBER',
  parse: (path, written) => {
    if (/^[+-]?(?:\d+\.?\d*|\.\d+)$/u.test(written)) return Number(written)
    throw refusal(path, 'a number such as 5 or 2.5', written)
  },
  read: (path, written) => {
    if (typeof written === 'number' && Number.isFinite(written)) return written
    throw fileRefusal(path, 'a number', written)
  },
  write: asIs,
}

/** Bits of a packet mark: a number, which YAML also takes as 0x107f, or the same as text. */
export const bits: ValueType<number> = {
  metavar: 'BITS',
  parse: readBits,
  read: readBits,
  write: (value) => `0x${value.toString(16)}`,
}

function readBits(path: string, written: unknown): number {
  const isHexOrDecimal = typeof written === 'string' && /^(?:0x[\da-f]{1,8}|\d{1,10})$/iu.test(written)
  const value = isHexOrDecimal ? Number(written) : written
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
  throw fileRefusal(path, 'bits such as 0x107f', written)
}

const durationExample = 'a duration such as 30s, 1m30s or 500ms'

function readDurationText(path: string, written: unknown, example = durationExample): string {
  if (typeof written === 'string') return written
  throw fileRefusal(path, example, written)
}

/** In milliseconds. */
export const duration: ValueType<number> = {
  metavar: 'DURATION',
  parse: parseDuration,
  read: (path, written) => parseDuration(path, readDurationText(path, written)),
  write: formatDuration,
  format: formatDuration,
}

/** In whole seconds; a fraction is cut off. */
export const seconds: ValueType<number> = {
  metavar: 'DURATION',
  parse: (path, written) => Math.floor(parseDuration(path, written) / 1000),
  read: (path, written) => Math.floor(duration.read(path, written) / 1000),
  write: (value) => formatDuration(value * 1000),
  format: (value) => formatDuration(value * 1000),
}

/** In milliseconds; Infinity: no limit. */
export const limit: ValueType<number> = {
  metavar: 'DURATION',
  parse: parseLimit,
  read: (path, written) =>
    parseLimit(path, readDurationText(path, written, `${durationExample}, or infinity`)),
  write: formatLimit,
  format: formatLimit,
}

/** Text as Go prints durations. */
export const durationText: ValueType<string> = {
  metavar: 'DURATION',
  parse: (path, written) => formatDuration(parseDuration(path, written)),
  read: (path, written) => formatDuration(duration.read(path, written)),
  write: asIs,
  zero: '0s',
}

/** As `durationText`. In a file also a number of nanoseconds (TimeOrMetaDuration of k8s.io/component-base). */
export const durationOrNanoseconds: ValueType<string> = {
  ...durationText,
  read: (path, written) =>
    Number.isSafeInteger(written) ? formatDuration(Number(written) / 1e6) : durationText.read(path, written),
}

/** An amount of memory such as 64Ki, a Quantity of k8s.io/apimachinery that is not negative; in a file also a number. */
export const quantity: ValueType<string> = {
  metavar: 'SIZE',
  parse: (path, written) => {
    if (isQuantity(written)) return written
    throw refusal(path, 'an amount such as 0 or 64Ki', written)
  },
  read: (path, written) => {
    const amount = typeof written === 'number' ? String(written) : written
    if (typeof amount === 'string' && isQuantity(amount)) return amount
    throw fileRefusal(path, 'an amount such as 0 or 64Ki', written)
  },
  write: asIs,
}

function isQuantity(amount: string): boolean {
  return /^\d+(?:\.\d*)?(?:[munkMGTPE]|[KMGTPE]i|[eE]\d+)?$/u.test(amount)
}

/** Texts: a list in a file, separated by commas in a flag. */
export const textList: ValueType<readonly string[]> = {
  metavar: 'LIST',
  parse: (_path, written) => splitList(written),
  read: (path, written) => {
    if (!Array.isArray(written)) throw fileRefusal(path, 'a list', written)
    return written.map((item: unknown, index) => text.read(`${path}[${index}]`, item))
  },
  write: asIs,
  format: (value) => value.join(','),
}

/** As `textList`. A repeated flag adds to the list. */
export const growingList: ValueType<readonly string[]> = {
  ...textList,
  add: (former, next) => [...former, ...next],
}

/** Texts separated by commas, in a file too. */
export const commaList: ValueType<readonly string[]> = {
  ...textList,
  read: (path, written) => {
    const value = text.read(path, written)
    return value === '' ? [] : value.split(',').map((entry) => entry.trim())
  },
  write: (value) => value.join(','),
}

/** Entries separated by commas, without blank ones. */
function splitList(written: string): readonly string[] {
  return written
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

/** True or false by name: a mapping in a file, `NAME=true,OTHER=false` in a flag. */
export const switches: ValueType<Readonly<Record<string, boolean>>> = {
  metavar: 'LIST',
  parse: (path, written) => Object.fromEntries(splitList(written).map((pair) => parseSwitch(path, pair))),
  read: (path, written) => {
    if (!isMapping(written)) throw fileRefusal(path, 'a mapping', written)
    const pairs = Object.entries(written)
    return Object.fromEntries(pairs.map(([name, value]) => [name, boolean.read(`${path}.${name}`, value)]))
  },
  write: asIs,
  format: (value) =>
    Object.entries(value)
      .map((pair) => pair.join('='))
      .join(','),
  add: (former, next) => ({ ...former, ...next }),
}

function parseSwitch(path: string, pair: string): readonly [string, boolean] {
  const { name, value } = /^(?<name>[^=]*)=(?<value>.*)$/su.exec(pair)?.groups ?? {}
  if (name === undefined || value === undefined) throw refusal(path, 'written NAME=true,OTHER=false', pair)
  if (trueTexts.includes(value.trim())) return [name.trim(), true]
  if (falseTexts.includes(value.trim())) return [name.trim(), false]
  throw new ConfigError(path, `${name.trim()} must be true or false, not "${value.trim()}"`)
}

/** Text `PATTERN=LEVEL,OTHER=LEVEL`, as for -vmodule of klog; in a file a list of `filePattern` and `verbosity`. */
export const verbosities: ValueType<string> = {
  metavar: 'PATTERNS',
  parse: (path, written) => {
    const pairs = splitList(written)
    const wrong = pairs.find((pair) => !/^[^=]+=\d{1,9}$/u.test(pair))
    if (wrong === undefined) return pairs.join(',')
    throw refusal(path, 'written PATTERN=LEVEL,OTHER=LEVEL', wrong)
  },
  read: (path, written) => {
    if (!Array.isArray(written)) throw fileRefusal(path, 'a list', written)
    return written.map((item: unknown, index) => readVerbosity(`${path}[${index}]`, item)).join(',')
  },
  write: (value) =>
    splitList(value).map((pair) => {
      const [filePattern = '', verbosity = ''] = pair.split('=')
      return { filePattern, verbosity: Number(verbosity) }
    }),
  add: (former, next) => [former, next].filter((part) => part !== '').join(','),
  unknownIn: (path, written) =>
    (Array.isArray(written) ? written : []).flatMap((item: unknown, index) =>
      Object.keys(isMapping(item) ? item : {})
        .filter((name) => name !== 'filePattern' && name !== 'verbosity')
        .map((name) => `${path}[${index}].${name}`),
    ),
}

function readVerbosity(path: string, written: unknown): string {
  if (!isMapping(written)) throw fileRefusal(path, 'a mapping', written)
  const { filePattern, verbosity } = written
  const pattern = text.read(`${path}.filePattern`, filePattern)
  if (!/^[^=,]+$/u.test(pattern)) {
    throw fileRefusal(`${path}.filePattern`, 'text without "=" and ","', pattern)
  }
  const level = readWholeNumber(`${path}.verbosity`, verbosity)
  if (level < 0) throw fileRefusal(`${path}.verbosity`, 'a whole number from 0', level)
  return `${pattern}=${level}`
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The error for a text that `path` does not accept. */
export function refusal(path: string, expected: string, written: string): ConfigError {
  return new ConfigError(path, `must be ${expected}, not "${written}"`)
}

/** The same for a value of a file, which may have a wrong type. */
export function fileRefusal(path: string, expected: string, written: unknown): ConfigError {
  return new ConfigError(path, `must be ${expected}, not ${describe(written)}`)
}

/** A value that was written, for messages: text is cut. */
function describe(value: unknown): string {
  if (typeof value === 'string') return `the text ${JSON.stringify(cut(value))}`
  return typeof value === 'object' && value !== null ? kindOf(value) : String(value)
}

const longestQuote = 100

function cut(written: string): string {
  return written.length <= longestQuote ? written : `${written.slice(0, longestQuote)}…`
}

/** The kind of a value, without the value. */
export function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isMapping(value)) return 'a mapping'
  if (typeof value === 'string') return 'text'
  return typeof value === 'number' ? 'a number' : typeof value === 'boolean' ? 'true or false' : 'nothing'
}
