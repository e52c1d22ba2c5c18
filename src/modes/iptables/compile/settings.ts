// The settings of the whole mode, in one IP family.
import type { IpAddress, IpFamily } from '../../../address.js'
import type { LocalDetector } from '../../../node/index.js'

export type { LocalDetector }

export interface IptablesModeSettings {
  readonly family: IpFamily
  /** One bit: packets that carry it leave with this node's address (F-046). */
  readonly masqueradeMark: number
  readonly masqueradeAll: boolean
  /** undefined: traffic of pods cannot be recognized, and no traffic to cluster IPs is masqueraded for its source (F-048). */
  readonly localDetector: LocalDetector | undefined
  /** Local addresses that serve node ports; `all`: every local address, future ones included. */
  readonly nodePortAddresses: 'all' | readonly IpAddress[]
  /** Node ports answer on 127.0.0.0/8 too; only ever true for IPv4 (F-064). */
  readonly localhostNodePorts: boolean
  /** Packets that conntrack finds invalid are dropped instead of forwarded (F-058). */
  readonly dropsInvalid: boolean
  /** The node's primary address of this family, which loadBalancerSourceRanges may allow (F-056). */
  readonly nodeIP: IpAddress | undefined
  /** False in a large cluster (`FamilyFacts.isLarge`): comments are most of a big table. */
  readonly withComments: boolean
}
