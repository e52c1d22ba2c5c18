// Feature gates of kube-proxy. Which there are, and what they are worth unless written: spec section 2.6.
import { ConfigError } from '../errors.js'

/** Gates that change something here, and which of the others were written. */
export interface FeatureGates {
  /** False: nothing is served at a Service's external IPs (F-011). */
  readonly AllowServiceExternalIPs: boolean
  /** As they were written, but without effect in this build. */
  readonly withoutEffect: Readonly<Record<string, boolean>>
}

const effective = 'AllowServiceExternalIPs'
/** Always on, and not to be switched off any more. */
const locked: readonly string[] = [
  'MultiCIDRServiceAllocator',
  'NFTablesProxyMode',
  'PreferSameTrafficDistribution',
]
const others: readonly string[] = [
  'AllAlpha',
  'AllBeta',
  'ComponentFlagz',
  'ComponentStatusz',
  'ContextualLogging',
  'KubeProxyIPVS',
  'KubeProxyNFTablesLocalhostNodePorts',
  'LoggingAlphaOptions',
  'LoggingBetaOptions',
  'NFTablesNetlink',
  'NativeHistograms',
]

/** Throws ConfigError for a gate that nobody knows, or that cannot be switched off. Sentences are kube-proxy's. */
export function resolveFeatureGates(written: Readonly<Record<string, boolean>>): FeatureGates {
  for (const [gate, value] of Object.entries(written)) {
    if (locked.includes(gate) && !value)
      throw refusal(`cannot set feature gate ${gate} to false, feature is locked to true`)
    if (gate !== effective && !locked.includes(gate) && !others.includes(gate))
      throw refusal(`unrecognized feature gate: ${gate}`)
  }
  return {
    AllowServiceExternalIPs: written[effective] ?? true,
    withoutEffect: Object.fromEntries(Object.entries(written).filter(([gate]) => gate !== effective)),
  }
}

function refusal(problem: string): ConfigError {
  return new ConfigError('featureGates', problem)
}
