// The settings of the whole mode, in one IP family.
import type { IpAddress, IpFamily } from '../../../address.js'
import type { LocalDetector } from '../../../node/index.js'

export interface NftModeSettings {
  readonly family: IpFamily
  /** One bit: packets that carry it leave with this node's address (F-046). */
  readonly masqueradeMark: number
  readonly masqueradeAll: boolean
  /** undefined: traffic of pods cannot be recognized, and no traffic to cluster IPs is masqueraded for its source (F-048). */
  readonly localDetector: LocalDetector | undefined
  /** Local addresses that serve node ports; `all`: every local address, future ones included. Never a loopback address (F-064). */
  readonly nodePortAddresses: 'all' | readonly IpAddress[]
  /** The node's primary address of this family, which loadBalancerSourceRanges may allow (F-056). */
  readonly nodeIP: IpAddress | undefined
  /** This node's name: endpoints on it may reach themselves through their Service (F-050). */
  readonly nodeName: string
}
