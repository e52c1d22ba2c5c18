// Feature gates of kube-proxy. Their defaults: those of kube-proxy 1.37 (kubernetes, pkg/features/kube_features.go).
import { knownFeatureGates } from './known-feature-gates.js'

/** The gates with an effect here, and the other gates as written. */
export interface FeatureGates {
  /** False: nothing is served at a Service's external IPs (F-011). */
  readonly AllowServiceExternalIPs: boolean
  /** True: nftables mode serves node ports on loopback addresses that nodePortAddresses names (KEP-6032; alpha in 1.37). */
  readonly KubeProxyNFTablesLocalhostNodePorts: boolean
  readonly withoutEffect: Readonly<Record<string, boolean>>
  /** Names in `withoutEffect` that no kube-proxy of the last seven releases knows. */
  readonly unknown: readonly string[]
}

/** Accepts any value for a gate of the last seven releases, even if a later release has locked the gate. */
export function resolveFeatureGates({
  AllowServiceExternalIPs = true,
  KubeProxyNFTablesLocalhostNodePorts = false,
  ...withoutEffect
}: Readonly<Record<string, boolean>>): FeatureGates {
  const names = Object.keys(withoutEffect)
  const known = names.length === 0 ? new Set() : knownFeatureGates()
  return {
    AllowServiceExternalIPs,
    KubeProxyNFTablesLocalhostNodePorts,
    withoutEffect,
    unknown: names.filter((name) => !known.has(name)),
  }
}

/** The gates for a file, without those at their default. */
export function writtenFeatureGates({
  AllowServiceExternalIPs,
  KubeProxyNFTablesLocalhostNodePorts,
  withoutEffect,
}: FeatureGates): Readonly<Record<string, boolean>> {
  return {
    ...(AllowServiceExternalIPs ? {} : { AllowServiceExternalIPs }),
    ...(KubeProxyNFTablesLocalhostNodePorts ? { KubeProxyNFTablesLocalhostNodePorts } : {}),
    ...withoutEffect,
  }
}
