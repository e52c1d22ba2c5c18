// Settings of kube-proxy that are read, validated and written as there, and change nothing in this build.
import { ConfigError } from '../errors.js'
import type { ConfigInput } from './config.js'
import { parseDuration } from './duration.js'

export type InertValue = string | number | boolean

/** What each is worth unless written, by its path and as in a file; of vmodule its flag's text. */
export const inertDefaults = {
  showHiddenMetricsForVersion: '',
  configSyncPeriod: '15m0s',
  'logging.flushFrequency': '5s',
  'logging.vmodule': '',
  'logging.options.text.splitStream': false,
  'logging.options.text.infoBufferSize': '0',
  'logging.options.json.splitStream': false,
  'logging.options.json.infoBufferSize': '0',
  'nftables.masqueradeBit': 14,
  'nftables.masqueradeAll': false,
  'nftables.syncPeriod': '30s',
  'nftables.minSyncPeriod': '1s',
  portRange: '',
  windowsRunAsService: false,
  'winkernel.networkName': '',
  'winkernel.sourceVip': '',
  'winkernel.enableDSR': false,
  'winkernel.rootHnsEndpointName': '',
  'winkernel.forwardHealthCheckVip': false,
} satisfies Readonly<Record<string, InertValue>>

export type InertPath = keyof typeof inertDefaults
/** By path. */
export type InertSettings = Readonly<Partial<Record<InertPath, InertValue>>>

export function withInert(input: ConfigInput, path: InertPath, value: InertValue): ConfigInput {
  return { ...input, withoutEffect: { ...input.withoutEffect, [path]: value } }
}

// The version that kube-proxy's configuration is taken from is 1.36 (spec section 0).
const previousMinor = '1.35'

/** Those that are written as something else than their default. Throws ConfigError; sentences are kube-proxy's. */
export function resolveWithoutEffect(written: InertSettings): InertSettings {
  const value = (path: InertPath): InertValue => written[path] ?? inertDefaults[path]
  within('nftables.masqueradeBit', value('nftables.masqueradeBit'), [0, 31])
  if (!(parseDuration('configSyncPeriod', String(value('configSyncPeriod'))) > 0)) {
    throw new ConfigError('configSyncPeriod', 'must be greater than 0')
  }
  if (!['', previousMinor].includes(String(value('showHiddenMetricsForVersion')))) {
    const problem = `must be omitted or have the value '${previousMinor}': only the previous minor version is allowed`
    throw new ConfigError('showHiddenMetricsForVersion', problem)
  }
  return Object.fromEntries(Object.entries(written).filter(isOfNote))
}

function isOfNote([path, written]: readonly [string, InertValue]): boolean {
  return Object.entries(inertDefaults).some(([other, usual]) => other === path && usual !== written)
}

function within(path: InertPath, value: InertValue, [from, to]: readonly [number, number]): void {
  if (typeof value === 'number' && value >= from && value <= to) return
  throw new ConfigError(path, `must be within the range [${from}, ${to}], not ${String(value)}`)
}
