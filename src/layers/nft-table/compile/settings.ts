// The settings of the whole mode, in one IP family.
import type { IpAddress, IpFamily, Cidr } from '../../../address.js'
import type { LocalDetector } from '../../../node/index.js'

/**
 * The mode whose semantics the table has. `iptables`: the fixed chains in the tables of iptables-nft masquerade marked packets,
 * accept them in the node's firewall and let health checks in; the table only translates and refuses.
 */
type NftSemantics = 'nftables' | 'iptables'

export interface NftModeSettings {
  readonly family: IpFamily
  readonly semantics: NftSemantics
  /** One bit: packets that carry it leave with this node's address (F-046). */
  readonly masqueradeMark: number
  readonly masqueradeAll: boolean
  /** undefined: traffic of pods cannot be recognized, and no traffic to cluster IPs is masqueraded for its source (F-048). */
  readonly localDetector: LocalDetector | undefined
  /** Local addresses that serve node ports; `all`: every local address, future ones included. */
  readonly nodePortAddresses: 'all' | readonly IpAddress[]
  /** Node ports answer on 127.0.0.0/8 too; only ever true for IPv4, with the semantics of iptables mode (F-064). */
  readonly localhostNodePorts: boolean
  /** The node's primary address of this family, which loadBalancerSourceRanges may allow (F-056). */
  readonly nodeIP: IpAddress | undefined
  /** This node's name: endpoints on it may reach themselves through their Service (F-050). */
  readonly nodeName: string
}

/** The settings of one family's table. */
export interface NftFamilySettings extends NftModeSettings {
  /** The networks of cluster IPs; undefined: not all are known yet, and those of the table stay. */
  readonly serviceCidrs: readonly Cidr[] | undefined
}

/** The settings without those that only the rules of the mode itself depend on. */
export function forRoutes({ serviceCidrs: _serviceCidrs, ...settings }: NftFamilySettings): NftModeSettings {
  return {
    ...settings,
    masqueradeMark: 0,
    masqueradeAll: false,
    localDetector: undefined,
    nodePortAddresses: 'all',
    localhostNodePorts: false,
  }
}
