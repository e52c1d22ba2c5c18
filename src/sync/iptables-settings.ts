// What the rules of iptables mode depend on, from the configuration and from what is known about this node.
import type { IpAddress, IpFamily } from '../address.js'
import type { Config } from '../config/index.js'
import { AddressCursor, type Links, type Routes } from '../kernel/index.js'
import { dummyDeviceName } from '../ledger/index.js'
import type { IptablesModeSettings } from '../modes/iptables/index.js'
import {
  type NodeFacts,
  localDetectorOf,
  nodePortAddressesOf,
  servesLocalhostNodePorts,
} from '../node/index.js'

/** The part of the configuration that the mode looks at. */
export type IptablesModeConfig = Pick<
  Config,
  'iptables' | 'featureGates' | 'detectLocalMode' | 'detectLocal' | 'clusterCIDR' | 'nodePortAddresses'
>

/** What is not written anywhere, but seen. */
export interface SeenFacts {
  readonly node: NodeFacts
  /** The machine's own addresses of this family. */
  readonly machine: readonly IpAddress[]
  readonly dropsInvalid: boolean
  readonly withComments: boolean
}

export function iptablesSettings(
  family: IpFamily,
  config: IptablesModeConfig,
  { node, machine, dropsInvalid, withComments }: SeenFacts,
): IptablesModeSettings {
  const facts = { family, config, node }
  return {
    family,
    masqueradeMark: 2 ** config.iptables.masqueradeBit,
    masqueradeAll: config.iptables.masqueradeAll,
    localDetector: localDetectorOf(config, family, node),
    nodePortAddresses: nodePortAddressesOf(facts, machine),
    localhostNodePorts: servesLocalhostNodePorts(facts),
    dropsInvalid,
    nodeIP: node.addresses[family],
    withComments,
  }
}

/** Whether the settings depend on the machine's own addresses. */
export function looksAtAddresses(config: IptablesModeConfig, family: IpFamily, node: NodeFacts): boolean {
  return nodePortAddressesOf({ family, config, node }, []) !== 'all'
}

/** The machine's own addresses of a family, each once, but for the VIPs of ipvs mode. Throws KernelError. */
export async function machineAddresses(
  family: IpFamily,
  { links, routes }: { readonly links: Links; readonly routes: Routes },
): Promise<readonly IpAddress[]> {
  const vips = await links.find(dummyDeviceName)
  const dumped = new AddressCursor(await routes.dumpAddresses(family))
  const found = new Set<IpAddress>()
  for (let index = 0; index < dumped.length; index++) {
    if (dumped.interfaceIndex(index) !== vips?.index) found.add(dumped.address(index))
  }
  return [...found].toSorted()
}
