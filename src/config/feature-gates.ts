// Feature gates as kube-proxy takes them. What each is worth unless written: spec section 2.6.
import { knownFeatureGates } from './known-feature-gates.js'

/** The gate that changes something here, and the others as they were written. */
export interface FeatureGates {
  /** False: nothing is served at a Service's external IPs (F-011). */
  readonly AllowServiceExternalIPs: boolean
  readonly withoutEffect: Readonly<Record<string, boolean>>
  /** Names in `withoutEffect` that no kube-proxy of the last six releases knows. */
  readonly unknown: readonly string[]
}

/** A gate of the last six releases may have either value, also where a later one has locked it. */
export function resolveFeatureGates({
  AllowServiceExternalIPs = true,
  ...withoutEffect
}: Readonly<Record<string, boolean>>): FeatureGates {
  const names = Object.keys(withoutEffect)
  const known = names.length === 0 ? new Set() : knownFeatureGates()
  return { AllowServiceExternalIPs, withoutEffect, unknown: names.filter((name) => !known.has(name)) }
}
