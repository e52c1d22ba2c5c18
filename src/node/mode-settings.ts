// Settings of the modes that follow from the configuration and the node: the machine's addresses for node ports (F-060 to F-064) and for
// the listeners of health checks (F-066), and the rule that recognizes traffic of this node's pods.
import {
  cidrContains,
  isLinkLocal,
  parseCidr,
  parseIpAddress,
  type Cidr,
  type IpAddress,
  type IpFamily,
} from '../address.js'
import type { Config, NodePortKeyword } from '../config/index.js'
import { BugError } from '../errors.js'
import type { NodeFacts } from './node-tracker.js'

/** `all`: every local address, including future ones. */
export type LocalAddresses = 'all' | readonly IpAddress[]

/** The facts that the addresses depend on. */
interface NodePortFacts {
  readonly family: IpFamily
  readonly config: Pick<Config, 'nodePortAddresses'> & {
    readonly iptables: Pick<Config['iptables'], 'localhostNodePorts'>
  }
  readonly node: Pick<NodeFacts, 'addresses'>
}

/** The facts that node ports on loopback addresses depend on, in a mode whose own objects cannot serve them. */
export interface LocalhostFacts {
  readonly mode: 'ipvs' | 'nftables'
  readonly family: IpFamily
  readonly config: Pick<Config, 'nodePortAddresses' | 'localhostNodePorts' | 'featureGates'>
}

const loopbackTexts = { ipv4: '127.0.0.1', ipv6: '::1' } as const

// A network whose own address is outside of 127.0.0.0/8 contains all of 127.0.0.0/8 or none, so this address decides.
const firstLoopback = parseIpAddress('127.0.0.0')

/** Whether node ports are on the node's loopback addresses too, which needs route_localnet: IPv4 only (F-064). */
export function servesLocalhostNodePorts({ family, config, node }: NodePortFacts): boolean {
  if (family !== 'ipv4' || !config.iptables.localhostNodePorts) return false
  const networks = networksOf(config, family, node)
  return networks === 'all' || networks.some(includesLoopback)
}

/** The same, from what the configuration alone says: `primary` never has loopback addresses once the node's IP is known. */
export function servesLocalhostByConfig({
  nodePortAddresses,
  iptables,
}: Pick<NodePortFacts, 'config'>['config']): boolean {
  return iptables.localhostNodePorts && knownNetworks(nodePortAddresses, 'ipv4').some(includesLoopback)
}

/**
 * The loopback address on which the relay serves node ports; undefined: none. The list of node-port addresses must contain it.
 * kube-proxy's gate, for nftables mode, requires a loopback network in the list, also beside one of everything, as in kube-proxy.
 */
export function relayedLoopback({ mode, family, config }: LocalhostFacts): IpAddress | undefined {
  const { localhostNodePorts, featureGates, nodePortAddresses } = config
  const address = parseIpAddress(loopbackTexts[family])
  if (address === undefined) return undefined
  const networks = knownNetworks(nodePortAddresses, family)
  const isContained = networks.some((network) => cidrContains(network, address))
  const isByGate = mode === 'nftables' && featureGates.KubeProxyNFTablesLocalhostNodePorts
  const isNamed = networks.some((network) => isLoopback(network.address))
  return isContained && (localhostNodePorts || (isByGate && isNamed)) ? address : undefined
}

/** The machine's addresses of this family for node ports, in bytewise order, each once. */
export function nodePortAddressesOf(facts: NodePortFacts, machine: readonly IpAddress[]): LocalAddresses {
  const found = healthCheckAddressesOf(facts, machine)
  if (found === 'all' || servesLocalhostNodePorts(facts)) return found
  return found.filter((address) => !isLoopback(address))
}

/** `nodePortAddressesOf` as a list: in place of `all`, the machine's addresses, loopback ones only if node ports are on them. */
export function nodePortDestinations(
  facts: NodePortFacts,
  machine: readonly IpAddress[],
): readonly IpAddress[] {
  const named = nodePortAddressesOf(facts, machine)
  if (named !== 'all') return named
  return servesLocalhostNodePorts(facts) ? machine : machine.filter((address) => !isLoopback(address))
}

/**
 * The machine's addresses on which a socket can serve node ports, in bytewise order. Loopback addresses of both families count if
 * `localhostNodePorts` is on. Link-local ones do not: a socket on one would need an interface too.
 */
export function nodePortSockets(facts: NodePortFacts, machine: readonly IpAddress[]): readonly IpAddress[] {
  const found = healthCheckAddressesOf(facts, machine)
  const { localhostNodePorts } = facts.config.iptables
  const addresses = found === 'all' ? machine : found
  return addresses.filter((address) => (localhostNodePorts || !isLoopback(address)) && !isLinkLocal(address))
}

/** Whether `nodePortSockets` are all addresses of the machine, whichever it has: loopback ones too. */
export function areNodePortsEverywhere({ family, config, node }: NodePortFacts): boolean {
  return config.iptables.localhostNodePorts && networksOf(config, family, node) === 'all'
}

/** The addresses for health checks of Services: those of node ports, and loopback addresses that the setting contains (F-066). */
export function healthCheckAddressesOf(facts: NodePortFacts, machine: readonly IpAddress[]): LocalAddresses {
  const networks = networksOf(facts.config, facts.family, facts.node)
  if (networks === 'all') return 'all'
  const isNamed = (address: IpAddress): boolean => networks.some((network) => cidrContains(network, address))
  return [...new Set(machine.filter(isNamed))].toSorted()
}

/** `healthCheckAddressesOf` as a list of addresses that a socket can have: in place of `all`, the machine's. Link-local ones need an interface too. */
export function healthCheckSockets(
  facts: NodePortFacts,
  machine: readonly IpAddress[],
): readonly IpAddress[] {
  const found = healthCheckAddressesOf(facts, machine)
  return (found === 'all' ? machine : found).filter((address) => !isLinkLocal(address))
}

/** F-060, F-061: a setting without a network of this family means all addresses, as in kube-proxy. */
function networksOf(
  { nodePortAddresses }: Pick<Config, 'nodePortAddresses'>,
  family: IpFamily,
  node: NodePortFacts['node'],
): 'all' | readonly Cidr[] {
  const ofFamily = networksIn(nodePortAddresses, family, node)
  const isEverything = ofFamily.length === 0 || ofFamily.some(({ prefixLength }) => prefixLength === 0)
  return isEverything ? 'all' : ofFamily
}

/** The networks of this family without those of `primary`, which the Node decides. A setting without any has all addresses. */
function knownNetworks(nodePortAddresses: Config['nodePortAddresses'], family: IpFamily): readonly Cidr[] {
  const networks = networksIn(nodePortAddresses, family, { addresses: {} })
  const isEverywhere = networks.length === 0 && !nodePortAddresses.includes('primary')
  return isEverywhere ? [everything[family]] : networks
}

/** The networks of this family that the setting names, keywords replaced by theirs. */
export function networksIn(
  nodePortAddresses: Config['nodePortAddresses'],
  family: IpFamily,
  node: NodePortFacts['node'],
): readonly Cidr[] {
  return nodePortAddresses.flatMap((entry) => {
    if (typeof entry === 'string') return keywordNetworks[entry](family, node)
    return entry.family === family ? [entry] : []
  })
}

const keywordNetworks: Readonly<
  Record<NodePortKeyword, (family: IpFamily, node: NodePortFacts['node']) => readonly Cidr[]>
> = {
  // A loopback address is no address of the node.
  primary: (family, { addresses: { [family]: address } }) =>
    address === undefined || isLoopback(address)
      ? []
      : [{ family, address, prefixLength: family === 'ipv4' ? 32 : 128 }],
  localhost: (family) => [loopbackNetworks[family]],
  all: (family) => [everything[family]],
}

/** Whether the network has a loopback address. */
export function includesLoopback(network: Cidr): boolean {
  return isLoopback(network.address) || (firstLoopback !== undefined && cidrContains(network, firstLoopback))
}

/** The loopback network of each family. */
export const loopbackNetworks: Readonly<Record<IpFamily, Cidr>> = {
  ipv4: constantCidr('127.0.0.0/8'),
  ipv6: constantCidr('::1/128'),
}

const everything: Readonly<Record<IpFamily, Cidr>> = {
  ipv4: constantCidr('0.0.0.0/0'),
  ipv6: constantCidr('::/0'),
}

function constantCidr(text: string): Cidr {
  const cidr = parseCidr(text)
  if (cidr === undefined) throw new BugError(`${text} is not a CIDR`)
  return cidr
}

/** Whether the address is a loopback address. */
export function isLoopback(address: IpAddress): boolean {
  return address.startsWith('127.') || address === '::1'
}

/** The rule that recognizes traffic of this node's pods. */
export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  /** The exact name of a bridge, or a prefix of names that ends in `+`. */
  | { readonly kind: 'interface'; readonly name: string }

type LocalDetectorConfig = Pick<Config, 'detectLocalMode' | 'detectLocal' | 'clusterCIDR'>

/** The detector of one family. undefined: no network of the family is known, so no rule can recognize the traffic. */
export function localDetectorOf(
  config: LocalDetectorConfig,
  family: IpFamily,
  node: Pick<NodeFacts, 'podCIDRs'>,
): LocalDetector | undefined {
  switch (config.detectLocalMode) {
    case 'ClusterCIDR':
      return byFirst(config.clusterCIDR, family)
    case 'NodeCIDR':
      return byFirst(node.podCIDRs, family)
    case 'BridgeInterface':
      return { kind: 'interface', name: config.detectLocal.bridgeInterface }
    case 'InterfaceNamePrefix':
      return { kind: 'interface', name: `${config.detectLocal.interfaceNamePrefix}+` }
  }
}

function byFirst(networks: readonly Cidr[], family: IpFamily): LocalDetector | undefined {
  const cidr = networks.find((network) => network.family === family)
  return cidr === undefined ? undefined : { kind: 'cidr', cidr }
}
