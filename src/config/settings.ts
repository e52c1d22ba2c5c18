// The table of settings, whole, and the types that follow from it. The order is that of fields in written files and of flags in
// the help. Every setting is read at start: a change of the file ends the agent, and its supervisor restarts it.
import { agentSettings } from './settings-agent.js'
import { trafficSettings } from './settings-traffic.js'
import type { AnySetting } from './setting.js'

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
export type ClientConfig = Config['client']
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
