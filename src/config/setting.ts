// One row of the table of settings: everything that the program knows about one setting.
import type { ValueType } from './value-types.js'

/** The document of a configuration file that has a field for the setting. */
export type Document = 'KubeProxyConfiguration' | 'ViaductConfiguration'

/** The other settings, for one that depends on them. */
export interface Others {
  /** The value as written, or the default. */
  inputOf<Input>(setting: Setting<string, Input, unknown, Use>): Input
  /** The value in Config. Throws ConfigError with the other setting's field. */
  valueOf<Value>(setting: Setting<string, unknown, Value, Use>): Value
}

/** `config`: it is part of Config. `input`: only other settings read it. `none`: it has no effect in this build. */
export type Use = 'config' | 'input' | 'none'

/** The places in which 0 and blank text count as absent, as in Go's defaulting. */
type ZeroDefault = 'in files' | 'in flags' | 'everywhere'

/** A setting whose flag and field give an `Input`, and that has a `Value` in Config. */
export interface Setting<Key extends string, Input, Value, Used extends Use = 'config'> {
  /** Path in Config and ConfigInput; of a setting without effect: its name in their `withoutEffect`. */
  readonly key: Key
  /** `key`, split at its dots. */
  readonly place: readonly string[]
  readonly use: Used
  readonly type: ValueType<Input>
  /** The default. A setting without flag and field always has this value. */
  readonly initial: Input
  /** Path in `document`, also in errors; without a document it is only for errors. */
  readonly field: string
  readonly document: Document | undefined
  readonly flag: Flag | undefined
  readonly isZeroDefault: ZeroDefault | undefined
  /** Validates and converts. Throws ConfigError with `field`. */
  resolve(this: void, input: Input, field: string, others: Others): Value
  /** The inverse of `resolve`; undefined: a file has no such field. `valueAt` gives another value of Config by its key. */
  show(this: void, value: Value, valueAt: (key: string) => unknown): Input | undefined
}

export type AnySetting = Setting<string, unknown, unknown, Use>

export interface Flag {
  /** Without dashes. */
  readonly name: string
  /** Settings of the same type that the flag sets too. */
  readonly alsoSets: readonly AnySetting[]
  /** Word for its value in the help; undefined: a boolean flag. */
  readonly metavar: string | undefined
  readonly help: string
  /** Its default as kube-proxy prints it; blank: none, or as the help says. */
  readonly defaultText: string
  /** Whether it works beside --config, where it wins over the field; false: the file replaces it. */
  readonly isBesideConfig: boolean
}

/** The properties of a row beyond key, type and default. */
interface Facts<Input, Value> {
  /** Absent: the key. */
  readonly field?: string
  /** Name without dashes; absent: the setting has no flag. */
  readonly flag?: string
  /** Absent: the flag sets only this setting. */
  readonly flagAlsoSets?: readonly AnySetting[]
  /** Absent: the type's. */
  readonly metavar?: string
  /** One sentence without default; `scripts/docs.mjs` and --help add it. */
  readonly help?: string
  /** Absent: the default in the type's format. */
  readonly defaultText?: string
  /** Absent: false for fields of KubeProxyConfiguration, else true. */
  readonly isBesideConfig?: boolean
  readonly isZeroDefault?: ZeroDefault
  /** Absent: Value is Input, and every value is valid. */
  resolve?(this: void, input: Input, field: string, others: Others): Value
  /** Absent: Value is Input. */
  show?(this: void, value: Value, valueAt: (key: string) => unknown): Input | undefined
}

/** A setting with a field in KubeProxyConfiguration. */
export function setting<const Key extends string, Input, Value = Input>(
  key: Key,
  type: ValueType<Input>,
  initial: Input,
  facts: Facts<Input, Value> = {},
): Setting<Key, Input, Value> {
  return makeSetting(key, type, initial, { document: 'KubeProxyConfiguration', ...facts })
}

/** A setting with a field in ViaductConfiguration. */
export function viaductSetting<const Key extends string, Input, Value = Input>(
  key: Key,
  type: ValueType<Input>,
  initial: Input,
  facts: Facts<Input, Value>,
): Setting<Key, Input, Value> {
  return makeSetting(key, type, initial, { document: 'ViaductConfiguration', ...facts })
}

/** A setting that only a flag sets. */
export function flagSetting<const Key extends string, Input, Value = Input>(
  key: Key,
  type: ValueType<Input>,
  initial: Input,
  facts: Facts<Input, Value>,
): Setting<Key, Input, Value> {
  return makeSetting(key, type, initial, facts)
}

/** A setting that only other settings read. */
export function inputOnly<Key extends string, Input, Value>(
  row: Setting<Key, Input, Value>,
): Setting<Key, Input, Value, 'input'> {
  return { ...row, use: 'input' }
}

/** A setting of kube-proxy that is read, validated and written as in kube-proxy, and has no effect in this build. */
export function inert<Key extends string, Input, Value>(
  row: Setting<Key, Input, Value>,
): Setting<Key, Input, Value, 'none'> {
  return { ...row, use: 'none', place: ['withoutEffect', row.key] }
}

// NB: `never` fits every Input and Value; Value is Input where a row does not convert.
const unchanged = (value: never): never => value

function makeSetting<Key extends string, Input, Value>(
  key: Key,
  type: ValueType<Input>,
  initial: Input,
  { document, ...facts }: Facts<Input, Value> & { readonly document?: Document },
): Setting<Key, Input, Value> {
  const { field = key, flag, flagAlsoSets: alsoSets = [], metavar = type.metavar, help = '' } = facts
  const { isBesideConfig = document !== 'KubeProxyConfiguration' } = facts
  const { defaultText = type.format?.(initial) ?? String(initial ?? '') } = facts
  return {
    key,
    place: key.split('.'),
    use: 'config',
    type,
    initial,
    field,
    document,
    flag:
      flag === undefined ? undefined : { name: flag, alsoSets, metavar, help, defaultText, isBesideConfig },
    isZeroDefault: facts.isZeroDefault,
    resolve: facts.resolve ?? unchanged,
    show: facts.show ?? unchanged,
  }
}
