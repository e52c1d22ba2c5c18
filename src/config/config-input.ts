// ConfigInput holds the settings as the operator wrote them, in fields of a file or in flags. This file builds it and fills in
// the defaults.
import { valueAt, withValueAt } from './places.js'
import type { AnySetting, Setting, Use } from './setting.js'
import type { ConfigInput } from './settings.js'

/** `input` with a field of a file, which is not null. Throws ConfigError with the field. */
export function takeField(input: ConfigInput, setting: AnySetting, written: unknown): ConfigInput {
  const value = setting.type.read(setting.field, written)
  const isAbsent = setting.isZeroDefault === 'in files' && isZero(value, setting)
  return isAbsent ? input : withWritten(input, setting, value)
}

/** `input` with the text of a flag, for all settings that the flag sets. Throws ConfigError with the field. */
export function takeFlag(input: ConfigInput, setting: AnySetting, text: string): ConfigInput {
  const { type, field, place, isZeroDefault, flag } = setting
  const value = type.parse(field, text)
  if (isZeroDefault === 'in flags' && isZero(value, setting)) return input
  const former = type.add === undefined ? undefined : valueAt(input, place)
  const written = former === undefined ? value : type.add?.(former, value)
  const all = [setting, ...(flag?.alsoSets ?? [])]
  return all.reduce((result, each) => withWritten(result, each, written), input)
}

/** The value of a setting as written, or its default. */
export function inputOf<Input>(input: ConfigInput, setting: Setting<string, Input, unknown, Use>): Input {
  const { place, initial, isZeroDefault } = setting
  const written = valueAt(input, place) ?? initial
  if (isZeroDefault === 'everywhere' && isZero(written, setting)) return initial
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the type of this place in ConfigInput follows from the row
  return written as Input
}

function withWritten(input: ConfigInput, { place }: AnySetting, value: unknown): ConfigInput {
  return withValueAt({ ...input }, place, value)
}

function isZero(value: unknown, { type }: AnySetting): boolean {
  return value === 0 || value === (type.zero ?? '')
}
