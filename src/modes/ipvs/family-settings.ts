// The settings of ipvs mode in one family.
import type { IpAddress, IpFamily } from '../../address.js'
import type { IpvsConfig } from '../../config/index.js'
import type { FamilyFacts, TrafficConfig } from '../../engine/index.js'
import { localDetectorOf, nodePortAddressesOf } from '../../node/index.js'
import type { IpvsChainSettings } from '../../layers/ipvs/index.js'
import type { IpvsModeSettings } from './compile/compile.js'
import type { SchedulingSettings } from './compile/scheduling.js'

export interface IpvsFamilySettings extends IpvsModeSettings {
  readonly chains: IpvsChainSettings
  /** The machine's own addresses, loopback and link-local ones included. */
  readonly machine: readonly IpAddress[]
}

export interface IpvsSettingsSource {
  readonly family: IpFamily
  readonly config: TrafficConfig & { readonly ipvs: Pick<IpvsConfig, 'markMask'> }
  /** NB: the set of missing schedulers grows and shrinks. A route that asks for one of them is claimed again then (`ServiceScheduling`). */
  readonly scheduling: SchedulingSettings
}

/** Loopback and link-local addresses: the kernel itself gives them to interfaces, and no router forwards packets to them. */
const notTheNodes = /^(?:127\.|::1$|fe[89ab])/u

export function familySettings(
  { family, config, scheduling }: IpvsSettingsSource,
  { node, machine }: Pick<FamilyFacts, 'node' | 'machine'>,
): IpvsFamilySettings {
  const own = machine.filter((address) => !notTheNodes.test(address))
  const named = nodePortAddressesOf({ family, config, node }, own)
  const masqueradeMark = 2 ** config.iptables.masqueradeBit
  return {
    ...scheduling,
    nodePortAddresses: named === 'all' ? own : named,
    nodeAddresses: new Set(own),
    nodeIP: node.addresses[family],
    markMask: config.ipvs.markMask,
    masqueradeMark,
    chains: {
      family,
      masqueradeMark,
      masqueradeAll: config.iptables.masqueradeAll,
      localDetector: localDetectorOf(config, family, node),
    },
    machine,
  }
}

/** The settings that compiled routes depend on. */
export function forRoutes({
  chains: _chains,
  machine: _machine,
  ...ofRoutes
}: IpvsFamilySettings): IpvsModeSettings {
  return ofRoutes
}
