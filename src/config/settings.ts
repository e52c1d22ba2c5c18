// The table of settings, whole; the types that follow from it; and the way from what the operator wrote to the configuration. The order is
// that of fields in written files and of flags in the help. Every setting is read at start: a change of the file ends the agent, and its
// supervisor restarts it.
import { commit, version } from '../version.js'
import { agentSettings } from './settings-agent.js'
import { trafficSettings, isModeUnset } from './settings-traffic.js'
import type { AnySetting, Others, Setting, Use } from './setting.js'
import { isMapping } from './value-types.js'

const rows = [...agentSettings, ...trafficSettings] as const
export const settings: readonly AnySetting[] = rows

type Row = (typeof rows)[number]

/** Everything that an operator can set, after defaults and validation. */
export type Config = Nested<{ [S in Exclude<Row, Without> as S['key']]: ReturnType<S['resolve']> }> &
  Required<FileReport> & {
    /** Settings without effect that are not at their default, by field. */
    readonly withoutEffect: InertSettings
    /** Whether neither `mode` nor `defaultMode` is set: a later release may run another mode. */
    readonly isModeUnset: boolean
    readonly version: string
    /** The commit of the build, as in version.ts. */
    readonly commit: string
  }

export type ConntrackConfig = Config['conntrack']
type ClientConfig = Config['client']
export type ClientConnection = ClientConfig['clientConnection']
export type IpvsConfig = Config['ipvs']
export type ServersConfig = Config['servers']

/** The settings as the operator wrote them, before defaults. Absent: not written. */
export type ConfigInput = NestedInput<{ [S in Exclude<Row, Inert> as S['key']]: S['initial'] }> &
  FileReport & { readonly withoutEffect?: InertSettings }

/** Results of the combination of a configuration file and flags. */
interface FileReport {
  /** Fields of the file without effect, each with its reason. */
  readonly ignoredFields?: readonly string[]
  /** Names of flags whose values the file replaced. */
  readonly discardedFlags?: readonly string[]
}

type Without = Extract<Row, { use: 'input' | 'none' }>
type Inert = Extract<Row, { use: 'none' }>
type InertSettings = { readonly [S in Inert as S['key']]?: S['initial'] }

/** `{ 'a.b': X; c: Y }` as `{ a: { b: X }; c: Y }`. */
type Nested<Flat> = {
  readonly [K in keyof Flat as FirstOf<K>]: K extends `${infer First}.${string}`
    ? Nested<Below<First, Flat>>
    : Flat[K]
}

/** The same with every part optional. */
type NestedInput<Flat> = {
  readonly [K in keyof Flat as FirstOf<K>]?:
    (K extends `${infer First}.${string}` ? NestedInput<Below<First, Flat>> : Flat[K]) | undefined
}

type FirstOf<Path> = Path extends `${infer First}.${string}` ? First : Path
type Below<First extends string, Flat> = {
  [K in keyof Flat as K extends `${First}.${infer Rest}` ? Rest : never]: Flat[K]
}

/** Fills defaults and validates. Throws ConfigError whose `path` is the setting's field, such as `ipvs.scheduler`. */
export function resolveConfig(input: ConfigInput): Config {
  const others: Others = {
    inputOf: (setting) => inputOf(input, setting),
    valueOf: (setting) => setting.resolve(inputOf(input, setting), setting.field, others),
  }
  const { ignoredFields = [], discardedFlags = [] } = input
  let config: Readonly<Record<string, unknown>> = {
    ignoredFields,
    discardedFlags,
    withoutEffect: {},
    isModeUnset: isModeUnset(others),
    version,
    commit,
  }
  for (const setting of settings) {
    const value = others.valueOf(setting)
    const isPart = setting.use === 'config' || (setting.use === 'none' && value !== setting.initial)
    if (isPart) config = withValueAt(config, setting.place, value)
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the type follows from the rows that the loop went through
  return config as unknown as Config
}

/** `input` with the value of a field, which is not null. Throws ConfigError with the field. */
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
function inputOf<Input>(input: ConfigInput, setting: Setting<string, Input, unknown, Use>): Input {
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

/** undefined: there is no value. */
export function valueAt(tree: unknown, place: readonly string[]): unknown {
  return place.reduce((found, name) => (isMapping(found) ? found[name] : undefined), tree)
}

/** A copy of `tree` with `value` at `place`. */
export function withValueAt(
  tree: Readonly<Record<string, unknown>>,
  [name = '', ...rest]: readonly string[],
  value: unknown,
): Readonly<Record<string, unknown>> {
  const inner = tree[name]
  const next = rest.length === 0 ? value : withValueAt(isMapping(inner) ? inner : {}, rest, value)
  return { ...tree, [name]: next }
}
