// kube-proxy's own iptables rules for the objects of a group, in the layout that it writes (1.36), for iptables-restore:
// what the traffic table expects must hold of them, or the table is wrong.
import { createHash } from 'node:crypto'
import type { KubernetesObject, Service } from '../../../src/source/index.js'
import type { TrafficSettings } from '../table/case.js'
import { addresses, type Family, familyOf, loopback, podNetwork, secondNodeAddress } from '../table/world.js'
import { canonical, type ReferenceEndpoint, referenceEndpoints } from './endpoints.js'

interface Tables {
  readonly nat: string[]
  readonly filter: string[]
  readonly natChains: Set<string>
}

interface World {
  readonly family: Family
  readonly settings: TrafficSettings
  readonly objects: readonly KubernetesObject[]
}

/** One service port with everything that its rules are made of. */
interface Port {
  readonly world: World
  readonly service: Service
  readonly clusterIP: string
  readonly match: (address: string) => string
  readonly protocol: string
  readonly nodePort: number
  /** Its name with its protocol: what the names of its chains are made of. */
  readonly text: string
  /** Part of the names of its chains. */
  readonly id: string
  readonly cluster: readonly ReferenceEndpoint[]
  readonly local: readonly ReferenceEndpoint[]
  readonly hasEndpoints: boolean
}

const natChains = ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ']
const filterChains = [
  'KUBE-SERVICES',
  'KUBE-EXTERNAL-SERVICES',
  'KUBE-FORWARD',
  'KUBE-NODEPORTS',
  'KUBE-PROXY-FIREWALL',
  'KUBE-FIREWALL',
]
const isNew = '-m conntrack --ctstate NEW'

/** The jumps from the kernel's chains, which are made once. */
const natJumps = [
  jump('PREROUTING', 'KUBE-SERVICES', 'kubernetes service portals'),
  jump('OUTPUT', 'KUBE-SERVICES', 'kubernetes service portals'),
  jump('POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules'),
]
const filterJumps = [
  ...['INPUT', 'FORWARD', 'OUTPUT'].map((hook) =>
    jump(hook, 'KUBE-PROXY-FIREWALL', 'kubernetes load balancer firewall', isNew),
  ),
  jump('FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules'),
  ...['FORWARD', 'OUTPUT'].map((hook) => jump(hook, 'KUBE-SERVICES', 'kubernetes service portals', isNew)),
  ...['FORWARD', 'INPUT'].map((hook) =>
    jump(hook, 'KUBE-EXTERNAL-SERVICES', 'kubernetes externally-visible service portals', isNew),
  ),
  jump('INPUT', 'KUBE-NODEPORTS', 'kubernetes health check service ports'),
  '-A INPUT -j KUBE-FIREWALL',
  '-A OUTPUT -j KUBE-FIREWALL',
]

function jump(hook: string, chain: string, comment: string, match = ''): string {
  return `-A ${hook} ${match} -m comment --comment "${comment}" -j ${chain}`
}

/** Input for iptables-restore or ip6tables-restore with --noflush. Chains of ours must not exist yet. */
export function kubeProxyRules(world: World, isLiberal: boolean): string {
  const tables: Tables = { nat: [], filter: [], natChains: new Set(natChains) }
  for (const object of world.objects) {
    if (object.kind !== 'Service') continue
    for (const port of portsOf(world, object)) addPort(tables, port)
  }
  addSkeleton(tables, world, isLiberal)
  return [
    ...tableText('filter', filterChains, [...filterJumps, ...tables.filter]),
    ...tableText('nat', tables.natChains, [...natJumps, ...tables.nat]),
    '',
  ].join('\n')
}

function tableText(name: string, chains: Iterable<string>, rules: readonly string[]): readonly string[] {
  return [`*${name}`, ...[...chains].map((chain) => `:${chain} - [0:0]`), ...rules, 'COMMIT']
}

/** The end of a chain's name: 16 letters of RFC 4648's base 32 for the first 80 bits of the SHA-256 of this text. */
function hashed(text: string): string {
  const bits = [...createHash('sha256').update(text).digest()]
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('')
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  return Array.from({ length: 16 }, (_, i) => letters[Number.parseInt(bits.slice(5 * i, 5 * i + 5), 2)]).join(
    '',
  )
}

function ofFamily(texts: readonly string[], family: Family): readonly string[] {
  return texts.map(canonical).filter((text) => /^[\da-f.:/]+$/.test(text) && familyOf(text) === family)
}

function mark({ settings }: World): string {
  return `0x${(2 ** (settings.masqueradeBit ?? 14)).toString(16)}`
}

function portsOf(world: World, service: Service): readonly Port[] {
  const { family, objects } = world
  const index = service.ipFamilies.indexOf(family)
  const clusterIP = canonical(service.clusterIPs[index] ?? '')
  const isOther = 'service.kubernetes.io/service-proxy-name' in service.labels
  if (isOther || service.type === 'ExternalName' || clusterIP === '' || clusterIP === 'None') return []
  return service.ports.map((port) => {
    const protocol = port.protocol.toLowerCase()
    const portName = port.name === '' ? '' : `:${port.name}`
    const text = `${service.namespace}/${service.name}${portName}${protocol}`
    const { cluster, local, hasAny } = referenceEndpoints(service, port, family, objects)
    return {
      world,
      service,
      clusterIP,
      protocol,
      nodePort: port.nodePort,
      match: (address) => `-d ${address} -p ${protocol} -m ${protocol} --dport ${port.port}`,
      text,
      id: hashed(text),
      cluster,
      local,
      hasEndpoints: cluster.length > 0 || hasAny,
    }
  })
}

interface LocalMatch {
  readonly is: string
  readonly isNot: string
}

function matching(match: string): LocalMatch {
  return { is: match, isNot: `! ${match}` }
}

function localMatch({ settings: { detectLocal }, family }: World): LocalMatch | undefined {
  switch (detectLocal?.mode) {
    case undefined:
      return undefined
    case 'ClusterCIDR': {
      const network = detectLocal.networks[family]
      return network === undefined ? undefined : matching(`-s ${network}`)
    }
    case 'NodeCIDR':
      return matching(`-s ${podNetwork[family]}`)
    case 'BridgeInterface':
      return matching(`-i ${detectLocal.name}`)
    case 'InterfaceNamePrefix':
      return matching(`-i ${detectLocal.prefix}+`)
  }
}

function addPort(tables: Tables, port: Port): void {
  const { service, clusterIP, match, local, hasEndpoints } = port
  const isInternalLocal = service.internalTrafficPolicy === 'Local'
  const isExternalLocal = service.externalTrafficPolicy === 'Local'
  const hasInternal = hasEndpoints && (isInternalLocal ? local : port.cluster).length > 0
  const hasExternal = hasEndpoints && (isExternalLocal ? local : port.cluster).length > 0
  const refusal = hasEndpoints ? 'DROP' : 'REJECT'
  const internal = `KUBE-${isInternalLocal ? 'SVL' : 'SVC'}-${port.id}`
  if (hasInternal) {
    tables.nat.push(`-A KUBE-SERVICES ${match(clusterIP)} -j ${internal}`)
    addClusterIPMasquerade(tables, port, internal)
  } else tables.filter.push(`-A KUBE-SERVICES ${match(clusterIP)} -j ${refusal}`)
  addExternal(tables, port, { hasExternal, refusal })
  if (hasEndpoints) {
    addExternalChain(tables, port, hasExternal, isExternalLocal)
    addEndpointChain(tables, port, `KUBE-SVC-${port.id}`, port.cluster)
    addEndpointChain(tables, port, `KUBE-SVL-${port.id}`, local)
  }
}

function addClusterIPMasquerade(tables: Tables, { world, clusterIP, match }: Port, chain: string): void {
  tables.natChains.add(chain)
  const detector = localMatch(world)
  if (world.settings.masqueradeAll === true)
    tables.nat.push(`-A ${chain} ${match(clusterIP)} -j KUBE-MARK-MASQ`)
  else if (detector !== undefined)
    tables.nat.push(`-A ${chain} ${match(clusterIP)} ${detector.isNot} -j KUBE-MARK-MASQ`)
}

function addExternal(
  tables: Tables,
  port: Port,
  { hasExternal, refusal }: { readonly hasExternal: boolean; readonly refusal: string },
): void {
  const { world, service, match, nodePort, protocol, hasEndpoints } = port
  const kept = ofFamily(service.loadBalancerSourceRanges, world.family)
  const ranges = kept.some((range) => range.endsWith('/0')) ? [] : kept
  const balancers = service.loadBalancerIngress.filter(({ ipMode }) => ipMode === 'VIP').map(({ ip }) => ip)
  const guarded = hasEndpoints && ranges.length > 0 ? ofFamily(balancers, world.family) : []
  const external = `KUBE-EXT-${port.id}`
  const externalIPs = world.settings.allowsExternalIPs === false ? [] : service.externalIPs
  // An address that is both has both rules, of which the first counts.
  const frontends = [
    ...ofFamily(externalIPs, world.family).map((address) => ({ address, isGuarded: false })),
    ...ofFamily(balancers, world.family).map((address) => ({ address, isGuarded: guarded.length > 0 })),
  ]
  for (const { address, isGuarded } of frontends) {
    const chain = isGuarded ? `KUBE-FW-${port.id}` : external
    if (hasEndpoints) tables.nat.push(`-A KUBE-SERVICES ${match(address)} -j ${chain}`)
    if (isGuarded) tables.filter.push(`-A KUBE-PROXY-FIREWALL ${match(address)} -j DROP`)
    if (!hasExternal) tables.filter.push(`-A KUBE-EXTERNAL-SERVICES ${match(address)} -j ${refusal}`)
  }
  if (guarded.length > 0) addFirewallChain(tables, port, ranges, guarded)
  if (nodePort === 0) return
  const toNode = `-p ${protocol} -m ${protocol} --dport ${nodePort}`
  if (hasEndpoints) tables.nat.push(`-A KUBE-NODEPORTS ${toNode} -j ${external}`)
  if (!hasExternal)
    tables.filter.push(`-A KUBE-EXTERNAL-SERVICES -m addrtype --dst-type LOCAL ${toNode} -j ${refusal}`)
}

function addFirewallChain(
  tables: Tables,
  port: Port,
  ranges: readonly string[],
  guarded: readonly string[],
): void {
  const chain = `KUBE-FW-${port.id}`
  tables.natChains.add(chain)
  const { family } = port.world
  // The table's ranges that hold the node's address are its own network.
  const network = addresses.node[family].replace(/[^.:]+$/, '')
  const ownAddresses = ranges.some((range) => range.startsWith(network)) ? guarded : []
  for (const source of [...ranges, ...ownAddresses])
    tables.nat.push(`-A ${chain} -s ${source} -j KUBE-EXT-${port.id}`)
}

function addExternalChain(tables: Tables, port: Port, hasExternal: boolean, isLocal: boolean): void {
  const chain = `KUBE-EXT-${port.id}`
  tables.natChains.add(chain)
  if (isLocal) {
    const detector = localMatch(port.world)
    // Without endpoints of the cluster there is no chain to jump to.
    const everywhere = port.cluster.length > 0 ? `KUBE-SVC-${port.id}` : 'RETURN'
    if (detector !== undefined) tables.nat.push(`-A ${chain} ${detector.is} -j ${everywhere}`)
    tables.nat.push(
      `-A ${chain} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
      `-A ${chain} -m addrtype --src-type LOCAL -j ${everywhere}`,
    )
  } else tables.nat.push(`-A ${chain} -j KUBE-MARK-MASQ`)
  if (hasExternal) tables.nat.push(`-A ${chain} -j KUBE-${isLocal ? 'SVL' : 'SVC'}-${port.id}`)
}

function addEndpointChain(
  tables: Tables,
  port: Port,
  chain: string,
  endpoints: readonly ReferenceEndpoint[],
): void {
  if (endpoints.length === 0) return
  tables.natChains.add(chain)
  const { service, protocol, text } = port
  const hasAffinity = service.sessionAffinity === 'ClientIP'
  const separate = (endpoint: ReferenceEndpoint): string => `KUBE-SEP-${hashed(text + destination(endpoint))}`
  if (hasAffinity) {
    const recent = `--rcheck --seconds ${service.sessionAffinityTimeoutSeconds} --reap`
    for (const endpoint of endpoints)
      tables.nat.push(`-A ${chain} -m recent --name ${separate(endpoint)} ${recent} -j ${separate(endpoint)}`)
  }
  for (const [index, endpoint] of endpoints.entries()) {
    const left = endpoints.length - index
    const chance = left > 1 ? `-m statistic --mode random --probability ${(1 / left).toFixed(10)} ` : ''
    const name = separate(endpoint)
    tables.nat.push(`-A ${chain} ${chance}-j ${name}`)
    if (tables.natChains.has(name)) continue
    tables.natChains.add(name)
    const entered = hasAffinity ? `-m recent --name ${name} --set ` : ''
    tables.nat.push(
      `-A ${name} -s ${endpoint.address} -j KUBE-MARK-MASQ`,
      `-A ${name} ${entered}-p ${protocol} -m ${protocol} -j DNAT --to-destination ${destination(endpoint)}`,
    )
  }
}

function destination({ address, port }: ReferenceEndpoint): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

function addSkeleton(tables: Tables, world: World, isLiberal: boolean): void {
  const { family } = world
  const bit = mark(world)
  const hasLocalhost = servesLoopback(world)
  if (hasLocalhost) {
    tables.filter.push(
      '-A KUBE-FIREWALL -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
    )
  }
  if (!isLiberal) tables.filter.push('-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP')
  for (const service of world.objects) {
    if (service.kind === 'Service' && service.healthCheckNodePort !== 0)
      tables.filter.push(`-A KUBE-NODEPORTS -p tcp -m tcp --dport ${service.healthCheckNodePort} -j ACCEPT`)
  }
  tables.filter.push(
    `-A KUBE-FORWARD -m mark --mark ${bit}/${bit} -j ACCEPT`,
    '-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  )
  const never = family === 'IPv4' ? '127.0.0.0/8' : '::1/128'
  const own = nodePortAddresses(world)
  const tail =
    own === undefined
      ? [
          `-A KUBE-SERVICES -m addrtype --dst-type LOCAL ${hasLocalhost ? '' : `! -d ${never} `}-j KUBE-NODEPORTS`,
        ]
      : own.map((address) => `-A KUBE-SERVICES -d ${address} -j KUBE-NODEPORTS`)
  tables.nat.push(
    ...tail,
    `-A KUBE-POSTROUTING -m mark ! --mark ${bit}/${bit} -j RETURN`,
    `-A KUBE-POSTROUTING -j MARK --xor-mark ${bit}`,
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
    `-A KUBE-MARK-MASQ -j MARK --or-mark ${bit}`,
  )
}

/** F-064. */
export function servesLoopback(world: World): boolean {
  const isWanted = world.family === 'IPv4' && world.settings.localhostNodePorts !== false
  return isWanted && (nodePortAddresses(world)?.includes(loopback.IPv4) ?? true)
}

const keywords: Readonly<Record<string, readonly string[]>> = {
  primary: Object.values(addresses.node),
  localhost: ['127.0.0.0/8', '::1/128'],
}

/** undefined: all. The groups name whole networks of node-a's addresses, so that a common beginning is enough. */
function nodePortAddresses({ family, settings }: World): readonly string[] | undefined {
  const written = settings.nodePortAddresses ?? []
  const networks = ofFamily(
    written.flatMap((entry) => keywords[entry] ?? [entry]),
    family,
  )
  if (networks.length === 0 || networks.some((network) => network.endsWith('/0'))) return undefined
  const prefixes = networks.map((network) => network.replace(/(?:0|:)\/\d+$/, ''))
  const isServed = family === 'IPv4' && settings.localhostNodePorts !== false
  return [addresses.node, secondNodeAddress, ...(isServed ? [loopback] : [])]
    .map((own) => own[family])
    .filter((own) => prefixes.some((prefix) => own.startsWith(prefix)))
}
