import type { Config } from '../config/index.js'

/** The part of the configuration that decides in every mode how packets reach Services. */
export type TrafficConfig = Pick<
  Config,
  | 'iptables'
  | 'featureGates'
  | 'detectLocalMode'
  | 'detectLocal'
  | 'clusterCIDR'
  | 'nodePortAddresses'
  | 'nodePortHolding'
>
