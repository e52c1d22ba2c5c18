import type { Cidr, IpAddress } from '../address.js'
import { ConfigError } from '../errors.js'
import { resolveClient, type ClientConfig, type ClientInput } from './client.js'
import { type ConntrackConfig, type ConntrackInput, resolveConntrack } from './conntrack.js'
import { type FeatureGates, resolveFeatureGates } from './feature-gates.js'
import { resolveIpvs, type IpvsConfig, type IpvsInput } from './ipvs.js'
import {
  resolveBindAddress,
  resolveClusterCIDR,
  resolveDetectLocal,
  resolveDetectLocalMode,
  resolveNodePortAddresses,
  type DetectLocal,
  type DetectLocalInput,
  type DetectLocalMode,
  type NodePortAddresses,
} from './local-traffic.js'
import { resolvePeriods, type SyncPeriods } from './periods.js'
import { resolveServers, type ServersConfig, type ServersInput } from './servers.js'
import { version } from './version.js'
import { resolveWithoutEffect, type InertSettings } from './without-effect.js'

/** A mode that this build can run. */
export type ProxyMode = 'iptables' | 'ipvs'
/** A mode that may be configured: also one that only a fallback can serve. */
export type ConfiguredMode = ProxyMode | 'nftables'
export type VipBinding = 'routes' | 'addresses'
export type LoggingFormat = 'json' | 'text'

export interface IptablesConfig extends SyncPeriods {
  /** Bit of the packet mark that asks for masquerading: 0 to 31. */
  readonly masqueradeBit: number
  /** Masquerade everything that goes to a cluster IP. */
  readonly masqueradeAll: boolean
  /** Node ports on loopback addresses too; IPv4 only. */
  readonly localhostNodePorts: boolean
}

/** Everything that an operator can set, after defaults and validation. */
export interface Config {
  /** Folder of manifests; undefined: objects come from an API server. */
  readonly manifests: string | undefined
  readonly mode: ConfiguredMode
  /** Whether another mode runs where this kernel cannot run `mode`; false: the agent exits. */
  readonly modeFallback: boolean
  /** Trimmed and lower-case; undefined: the host name of the operating system. */
  readonly hostnameOverride: string | undefined
  /** Stands for the node's own IP; undefined: the Node object's addresses. No socket is bound to it. */
  readonly bindAddress: IpAddress | undefined
  readonly ipvs: IpvsConfig
  readonly iptables: IptablesConfig
  readonly detectLocalMode: DetectLocalMode
  readonly detectLocal: DetectLocal
  /** The pods' networks: none, one, or one of each family. */
  readonly clusterCIDR: readonly Cidr[]
  readonly nodePortAddresses: NodePortAddresses
  /** How VIPs become local. */
  readonly vipBinding: VipBinding
  readonly featureGates: FeatureGates
  readonly conntrack: ConntrackConfig
  readonly servers: ServersConfig
  readonly client: ClientConfig
  /** How willingly the kernel ends the process when memory is short: -1000 (never) to 1000. */
  readonly oomScoreAdj: number
  /** Settings that are not their default, and change nothing in this build. */
  readonly withoutEffect: InertSettings
  /** What has no effect in the configuration file: each field, and why. */
  readonly ignoredFields: readonly string[]
  /** Names of flags without a field that are not their default, and change nothing in this build. */
  readonly flagsWithoutEffect: readonly string[]
  /** Names of flags that a configuration file has replaced. */
  readonly discardedFlags: readonly string[]
  /** File to write the configuration to, instead of running. */
  readonly writeConfigTo: string | undefined
  /** Set what only a privileged process may set, then exit (F-103). */
  readonly initOnly: boolean
  /** Remove what we programmed, then exit. */
  readonly cleanup: boolean
  /** klog's V: 0 is quiet. */
  readonly verbosity: number
  readonly loggingFormat: LoggingFormat
  readonly version: string
}

/** What an operator wrote, before defaults. Absent: not written. */
export interface ConfigInput {
  readonly manifests?: string | undefined
  /** Blank: iptables. */
  readonly mode?: string | undefined
  readonly modeFallback?: boolean | undefined
  readonly hostnameOverride?: string | undefined
  readonly bindAddress?: string | undefined
  readonly ipvs?: IpvsInput | undefined
  readonly iptables?: { readonly [K in keyof IptablesConfig]?: IptablesConfig[K] | undefined }
  readonly detectLocalMode?: string | undefined
  readonly detectLocal?: DetectLocalInput
  readonly clusterCIDR?: readonly string[] | undefined
  readonly nodePortAddresses?: readonly string[] | undefined
  readonly vipBinding?: string | undefined
  /** By the gate's name. */
  readonly featureGates?: Readonly<Record<string, boolean>>
  readonly conntrack?: ConntrackInput
  readonly servers?: ServersInput
  readonly client?: ClientInput
  readonly oomScoreAdj?: number
  readonly withoutEffect?: InertSettings
  readonly ignoredFields?: readonly string[]
  readonly flagsWithoutEffect?: readonly string[]
  readonly discardedFlags?: readonly string[]
  /** Blank: none. */
  readonly configFile?: string | undefined
  /** Whether unknown and repeated fields of that file are errors. */
  readonly strictConfig?: boolean | undefined
  /** Blank: nowhere. */
  readonly writeConfigTo?: string | undefined
  readonly initOnly?: boolean | undefined
  readonly cleanup?: boolean | undefined
  readonly verbosity?: number | undefined
  readonly loggingFormat?: string | undefined
}

const configuredModes: readonly ConfiguredMode[] = ['iptables', 'ipvs', 'nftables']
const vipBindings: readonly VipBinding[] = ['routes', 'addresses']
const loggingFormats: readonly LoggingFormat[] = ['json', 'text']

/** Fills defaults and validates. Throws ConfigError whose `path` is the field's, such as `ipvs.scheduler`. */
export function resolveConfig(input: ConfigInput): Config {
  const detectLocalMode = resolveDetectLocalMode(input.detectLocalMode ?? '')
  const { modeFallback = true } = input
  const mode = resolveMode(input.mode ?? '', modeFallback)
  const iptables = resolveIptables(input.iptables ?? {})
  return {
    manifests: input.manifests === '' ? undefined : input.manifests,
    mode,
    modeFallback,
    hostnameOverride: resolveHostnameOverride(input.hostnameOverride ?? ''),
    bindAddress: resolveBindAddress(input.bindAddress ?? '0.0.0.0'),
    ipvs: resolveIpvs(input.ipvs ?? {}, iptables.masqueradeBit),
    iptables,
    detectLocalMode,
    detectLocal: resolveDetectLocal(detectLocalMode, input.detectLocal ?? {}),
    clusterCIDR: resolveClusterCIDR(detectLocalMode, input.clusterCIDR ?? []),
    nodePortAddresses: resolveNodePortAddresses(input.nodePortAddresses ?? [], mode),
    vipBinding: oneOf('vipBinding', vipBindings, input.vipBinding ?? 'routes'),
    featureGates: resolveFeatureGates(input.featureGates ?? {}),
    conntrack: resolveConntrack(input.conntrack ?? {}),
    servers: resolveServers(input.servers ?? {}, input.bindAddress ?? '0.0.0.0'),
    client: resolveClient(input.client ?? {}),
    oomScoreAdj: resolveOomScoreAdj(input.oomScoreAdj ?? -999),
    withoutEffect: resolveWithoutEffect(input.withoutEffect ?? {}),
    ignoredFields: input.ignoredFields ?? [],
    flagsWithoutEffect: input.flagsWithoutEffect ?? [],
    discardedFlags: input.discardedFlags ?? [],
    writeConfigTo: input.writeConfigTo === '' ? undefined : input.writeConfigTo,
    initOnly: input.initOnly ?? false,
    cleanup: input.cleanup ?? false,
    verbosity: resolveVerbosity(input.verbosity ?? 0),
    loggingFormat: oneOf('logging.format', loggingFormats, input.loggingFormat ?? 'json'),
    version,
  }
}

/** Blank means iptables, as in kube-proxy. */
function resolveMode(text: string, modeFallback: boolean): ConfiguredMode {
  const mode = oneOf('mode', configuredModes, text === '' ? 'iptables' : text)
  if (mode === 'nftables' && !modeFallback) {
    throw new ConfigError('mode', 'nftables is not in this build, and modeFallback is false')
  }
  return mode
}

function resolveHostnameOverride(text: string): string | undefined {
  if (text === '') return undefined
  const name = text.trim().toLowerCase()
  if (name === '') throw new ConfigError('hostnameOverride', 'empty hostname-override is invalid')
  return name
}

function resolveIptables(input: NonNullable<ConfigInput['iptables']>): IptablesConfig {
  const { masqueradeBit = 14, masqueradeAll = false, localhostNodePorts = true } = input
  if (!(Number.isInteger(masqueradeBit) && masqueradeBit >= 0 && masqueradeBit <= 31)) {
    throw new ConfigError('iptables.masqueradeBit', `must be within the range [0, 31], not ${masqueradeBit}`)
  }
  return { ...resolvePeriods('iptables', input), masqueradeBit, masqueradeAll, localhostNodePorts }
}

function resolveOomScoreAdj(score: number): number {
  if (Number.isInteger(score) && score >= -1000 && score <= 1000) return score
  throw new ConfigError('oomScoreAdj', `must be within the range [-1000, 1000], not ${score}`)
}

function resolveVerbosity(level: number): number {
  if (Number.isSafeInteger(level) && level >= 0) return level
  throw new ConfigError('logging.verbosity', `must be a whole number from 0, not ${level}`)
}

function oneOf<T extends string>(path: string, choices: readonly T[], text: string): T {
  const choice = choices.find((candidate) => candidate === text)
  if (choice !== undefined) return choice
  const last = choices.at(-1)
  const others = choices.slice(0, -1).join(', ')
  throw new ConfigError(path, `must be ${others} or ${last}, not "${text}"`)
}
