// The texts of flags' values.
import { isQuantity } from '../config/index.js'
import { ConfigError } from '../errors.js'

// strconv.ParseBool of Go.
const trueTexts = ['true', 'True', 'TRUE', 't', 'T', '1']
const falseTexts = ['false', 'False', 'FALSE', 'f', 'F', '0']

/** A boolean as Go's flags write it. Throws ConfigError with `field`. */
export function parseBoolean(field: string, text: string): boolean {
  if (trueTexts.includes(text)) return true
  if (falseTexts.includes(text)) return false
  throw new ConfigError(field, `must be true or false, not "${text}"`)
}

/** A whole number without sign. Throws ConfigError with `field`. */
export function parseNumber(field: string, text: string): number {
  if (/^\d{1,9}$/u.test(text)) return Number(text)
  throw new ConfigError(field, `must be a whole number from 0, not "${text}"`)
}

/** A whole number, which may be negative. Throws ConfigError with `field`. */
export function parseInteger(field: string, text: string): number {
  if (/^[+-]?\d{1,9}$/u.test(text)) return Number(text)
  throw new ConfigError(field, `must be a whole number, not "${text}"`)
}

/** A number. Throws ConfigError with `field`. */
export function parseDecimal(field: string, text: string): number {
  if (/^[+-]?(?:\d+\.?\d*|\.\d+)$/u.test(text)) return Number(text)
  throw new ConfigError(field, `must be a number such as 5 or 2.5, not "${text}"`)
}

/** An amount of memory, as it is written. Throws ConfigError with `field`. */
export function parseQuantity(field: string, text: string): string {
  if (isQuantity(text)) return text
  throw new ConfigError(field, `must be an amount such as 0 or 64Ki, not "${text}"`)
}

/** `PATTERN=LEVEL,OTHER=LEVEL`, as klog's -vmodule is written. Throws ConfigError with `field`. */
export function parseVerbosities(field: string, text: string): string {
  const pairs = splitList(text)
  const wrong = pairs.find((pair) => !/^[^=]+=\d{1,9}$/u.test(pair))
  if (wrong === undefined) return pairs.join(',')
  throw new ConfigError(field, `must be written PATTERN=LEVEL,OTHER=LEVEL, not "${wrong}"`)
}

/** `NAME=true,OTHER=false`, as Go's maps of booleans are written. Throws ConfigError with `field`. */
export function parseBooleans(field: string, text: string): Readonly<Record<string, boolean>> {
  const pairs = splitList(text).map((pair): readonly [string, boolean] => {
    const { name, value } = /^(?<name>[^=]*)=(?<value>.*)$/su.exec(pair)?.groups ?? {}
    if (name === undefined || value === undefined)
      throw new ConfigError(field, `must be written NAME=true,OTHER=false, not "${pair}"`)
    const isBoolean = trueTexts.includes(value.trim()) || falseTexts.includes(value.trim())
    if (!isBoolean)
      throw new ConfigError(field, `${name.trim()} must be true or false, not "${value.trim()}"`)
    return [name.trim(), trueTexts.includes(value.trim())]
  })
  return Object.fromEntries(pairs)
}

/** Entries separated by commas; blank ones do not count. */
export function splitList(text: string): readonly string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}
