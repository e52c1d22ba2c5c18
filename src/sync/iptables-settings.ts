// What the rules of iptables mode depend on, from the configuration and from what is known about this node.
import { type Cidr, type IpAddress, type IpFamily, cidrContains, familyOf } from '../address.js'
import type { Config } from '../config/index.js'
import { AddressCursor, type Links, type Routes, hostPrefixLength } from '../kernel/index.js'
import { dummyDeviceName } from '../ledger/index.js'
import type { IptablesModeSettings } from '../modes/iptables/index.js'
import type { NodeFacts } from '../node/index.js'

/** The part of the configuration that the mode looks at. */
export type IptablesModeConfig = Pick<
  Config,
  'iptables' | 'detectLocalMode' | 'detectLocal' | 'clusterCIDR' | 'nodePortAddresses'
>

/** What is not written anywhere, but seen. */
export interface SeenFacts {
  readonly node: NodeFacts
  /** Of this family; `all`: nobody has to look, as all of them take node ports. */
  readonly nodePortAddresses: 'all' | readonly IpAddress[]
  /** nf_conntrack_tcp_be_liberal is 0. */
  readonly dropsInvalid: boolean
  readonly withComments: boolean
}

export function iptablesSettings(
  family: IpFamily,
  config: IptablesModeConfig,
  seen: SeenFacts,
): IptablesModeSettings {
  const { masqueradeBit, masqueradeAll, localhostNodePorts } = config.iptables
  return {
    family,
    masqueradeMark: 2 ** masqueradeBit,
    masqueradeAll,
    localDetector: localDetector(family, config, seen.node),
    nodePortAddresses: seen.nodePortAddresses,
    localhostNodePorts: localhostNodePorts && family === 'ipv4',
    dropsInvalid: seen.dropsInvalid,
    nodeIP: seen.node.addresses[family],
    withComments: seen.withComments,
  }
}

/** kube-proxy's behaviour: spec 2.5. */
function localDetector(
  family: IpFamily,
  { detectLocalMode, detectLocal, clusterCIDR }: IptablesModeConfig,
  node: NodeFacts,
): IptablesModeSettings['localDetector'] {
  switch (detectLocalMode) {
    case 'ClusterCIDR':
      return ofFamily(clusterCIDR, family)
    case 'NodeCIDR':
      return ofFamily(node.podCIDRs, family)
    case 'BridgeInterface':
      return { kind: 'interface', name: detectLocal.bridgeInterface }
    case 'InterfaceNamePrefix':
      return { kind: 'interface', name: `${detectLocal.interfaceNamePrefix}+` }
  }
}

function ofFamily(networks: readonly Cidr[], family: IpFamily): IptablesModeSettings['localDetector'] {
  const cidr = networks.find((network) => network.family === family)
  return cidr && { kind: 'cidr', cidr }
}

/**
 * Networks whose local addresses take node ports (F-060, F-061). `all` also where the list has none of this family: an
 * operator who names only IPv4 networks says nothing about IPv6.
 */
export function nodePortNetworks(
  family: IpFamily,
  { nodePortAddresses }: Pick<IptablesModeConfig, 'nodePortAddresses'>,
  node: NodeFacts,
): 'all' | readonly Cidr[] {
  const networks = nodePortAddresses === 'primary' ? primaryNetworks(node) : nodePortAddresses
  const own = networks.filter((network) => network.family === family)
  return own.length === 0 || own.some(({ prefixLength }) => prefixLength === 0) ? 'all' : own
}

function primaryNetworks({ addresses }: NodeFacts): readonly Cidr[] {
  return Object.values(addresses).map((address) => {
    const family = familyOf(address)
    return { family, address, prefixLength: hostPrefixLength(family) }
  })
}

/** The addresses of this machine that lie in the networks, each once; those of VIPs of ipvs mode are none. Throws KernelError. */
export async function localAddressesIn(
  networks: readonly Cidr[],
  family: IpFamily,
  { links, routes }: { readonly links: Links; readonly routes: Routes },
): Promise<readonly IpAddress[]> {
  const vips = await links.find(dummyDeviceName)
  const dumped = new AddressCursor(await routes.dumpAddresses(family))
  const found = new Set<IpAddress>()
  for (let index = 0; index < dumped.length; index++) {
    const address = dumped.address(index)
    const isVip = dumped.interfaceIndex(index) === vips?.index
    if (!isVip && networks.some((network) => cidrContains(network, address))) found.add(address)
  }
  return [...found].toSorted()
}
