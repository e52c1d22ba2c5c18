// The kernel state of a kube-proxy in ipvs mode 1.36, in the formats of the standard tools.
import type { XtFlavour } from '../../src/kernel/index.js'
import type { Namespace } from './namespaces.js'

/** One service port of kube-proxy in one family. */
export interface KubeProxyPort {
  readonly protocol: 'tcp' | 'udp'
  readonly port: number
  readonly clusterIP: string
  readonly externalIPs?: readonly string[]
  readonly loadBalancerIPs?: readonly string[]
  readonly sourceRanges?: readonly string[]
  readonly nodePort?: number
  readonly healthCheckNodePort?: number
  /** externalTrafficPolicy Local. */
  readonly isLocal?: boolean
  readonly affinitySeconds?: number
  readonly endpoints: readonly KubeProxyEndpoint[]
}

export interface KubeProxyEndpoint {
  readonly address: string
  readonly port: number
  readonly isOnNode: boolean
  /** 0: the real server drains. */
  readonly weight: 0 | 1
}

/** A node of one family. */
export interface KubeProxyNode {
  readonly family: 'IPv4' | 'IPv6'
  /** InternalIP. */
  readonly address: string
  /** The addresses of all interfaces except kube-ipvs0 and lo. */
  readonly addresses: readonly string[]
  readonly clusterCidr: string
  readonly ports: readonly KubeProxyPort[]
}

/** Sets in kube-proxy's order, by their IPv4 names. */
const setTypes = {
  'KUBE-LOOP-BACK': 'hash:ip,port,ip',
  'KUBE-CLUSTER-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-FW': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'KUBE-LOAD-BALANCER-SOURCE-IP': 'hash:ip,port,ip',
  'KUBE-NODE-PORT-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH': 'hash:ip,port',
  'KUBE-HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'KUBE-IPVS-IPS': 'hash:ip',
} as const
type SetName = keyof typeof setTypes
const setNames = Object.keys(setTypes).filter((name): name is SetName => name in setTypes)

/** The comments of rules that match a set; only for the sets that the tests use. */
const comments: Readonly<Partial<Record<SetName, string>>> = {
  'KUBE-LOOP-BACK': 'Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose',
  'KUBE-CLUSTER-IP': 'Kubernetes service cluster ip + port for masquerade purpose',
  'KUBE-EXTERNAL-IP': 'Kubernetes service external ip + port for masquerade and filter purpose',
  'KUBE-EXTERNAL-IP-LOCAL': 'Kubernetes service external ip + port with externalTrafficPolicy=local',
  'KUBE-LOAD-BALANCER': 'Kubernetes service lb portal',
  'KUBE-LOAD-BALANCER-LOCAL': 'Kubernetes service load balancer ip + port with externalTrafficPolicy=local',
  'KUBE-LOAD-BALANCER-FW': 'Kubernetes service load balancer ip + port for load balancer with sourceRange',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR':
    'Kubernetes service load balancer ip + port + source cidr for packet filter purpose',
  'KUBE-LOAD-BALANCER-SOURCE-IP':
    'Kubernetes service load balancer ip + port + source IP for packet filter purpose',
  'KUBE-NODE-PORT-TCP': 'Kubernetes nodeport TCP port for masquerade purpose',
  'KUBE-NODE-PORT-LOCAL-TCP': 'Kubernetes nodeport TCP port with externalTrafficPolicy=local',
  'KUBE-NODE-PORT-UDP': 'Kubernetes nodeport UDP port for masquerade purpose',
  'KUBE-NODE-PORT-LOCAL-UDP': 'Kubernetes nodeport UDP port with externalTrafficPolicy=local',
  'KUBE-HEALTH-CHECK-NODE-PORT': 'Kubernetes health check node port',
}

const mark = '0x00004000'

/** Files for `ip -batch`, `ipset restore`, `ipvsadm -R` and `iptables-restore --noflush`. */
export class KubeProxyState {
  readonly #node: KubeProxyNode
  readonly #entries = new Map<SetName, Set<string>>()
  /** VIPs on the dummy device. */
  readonly vips = new Set<string>()
  readonly #servers: string[] = []
  readonly #outFilter: string[] = []

  constructor(node: KubeProxyNode) {
    this.#node = node
    for (const port of node.ports) this.#addPort(port)
    for (const vip of this.vips) this.#enter('KUBE-IPVS-IPS', vip)
  }

  /** Loads the whole state, like kube-proxy's first sync. NB: the device must exist. Foreign objects stay. */
  async load(node: Namespace, flavour: XtFlavour): Promise<void> {
    const v6 = this.#node.family === 'IPv6'
    const prefix = v6 ? 128 : 32
    const restore = `${v6 ? 'ip6tables' : 'iptables'}-${flavour}-restore`
    await Promise.all([
      node.ip(...[...this.vips].map((vip) => `address add ${vip}/${prefix} dev kube-ipvs0`)),
      feed(node, this.virtualServers, 'ipvsadm', '-R'),
      feed(node, this.sets, 'ipset', 'restore').then(() =>
        feed(node, this.tables, restore, '--wait', '--noflush', '--counters'),
      ),
    ])
  }

  get sets(): readonly string[] {
    const family = this.#node.family === 'IPv4' ? 'inet' : 'inet6'
    return setNames.flatMap((name) => {
      const own = this.#set(name)
      const type = setTypes[name]
      const size =
        type === 'bitmap:port'
          ? 'bitmap:port range 0-65535'
          : `${type} family ${family} hashsize 1024 maxelem 65536`
      const adds = [...(this.#entries.get(name) ?? [])].map((entry) => `add ${own} ${entry}`)
      return [`create ${own} ${size}`, ...adds]
    })
  }

  get virtualServers(): readonly string[] {
    return this.#servers
  }

  /** Chains in the order of kube-proxy 1.36. Each jump is inserted before all others. */
  get tables(): readonly string[] {
    const nat = ['SERVICES', 'POSTROUTING', 'NODE-PORT', 'LOAD-BALANCER', 'MARK-MASQ']
    const filter = [
      'FORWARD',
      'NODE-PORT',
      'PROXY-FIREWALL',
      'SOURCE-RANGES-FIREWALL',
      'IPVS-FILTER',
      'IPVS-OUT-FILTER',
    ]
    return [
      '*nat',
      ...nat.map((name) => `:KUBE-${name} - [0:0]`),
      jump('OUTPUT', 'KUBE-SERVICES', 'kubernetes service portals'),
      jump('PREROUTING', 'KUBE-SERVICES', 'kubernetes service portals'),
      jump('POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules'),
      ...this.#natRules(),
      'COMMIT',
      '*filter',
      ...filter.map((name) => `:KUBE-${name} - [0:0]`),
      jump('FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules'),
      jump('INPUT', 'KUBE-NODE-PORT', 'kubernetes health check rules'),
      jump('INPUT', 'KUBE-PROXY-FIREWALL', 'kube-proxy firewall rules'),
      jump('FORWARD', 'KUBE-PROXY-FIREWALL', 'kube-proxy firewall rules'),
      jump('INPUT', 'KUBE-IPVS-FILTER', 'kubernetes ipvs access filter'),
      jump('OUTPUT', 'KUBE-IPVS-OUT-FILTER', 'kubernetes ipvs access filter'),
      ...this.#filterRules(),
      'COMMIT',
    ]
  }

  #addPort(of: KubeProxyPort): void {
    const { protocol, port, clusterIP, endpoints, isLocal = false } = of
    for (const { address, port: own, isOnNode, weight } of endpoints)
      if (isOnNode && weight > 0) this.#enter('KUBE-LOOP-BACK', `${address},${protocol}:${own},${address}`)
    const frontend = (vip: string): string => `${vip},${protocol}:${port}`
    this.#enter('KUBE-CLUSTER-IP', frontend(clusterIP))
    this.#serve(of, { vip: clusterIP, port, localOnly: false })
    for (const vip of of.externalIPs ?? []) {
      this.#enter(isLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP', frontend(vip))
      this.#serve(of, { vip, port, localOnly: isLocal })
    }
    for (const vip of of.loadBalancerIPs ?? []) {
      this.#enter('KUBE-LOAD-BALANCER', frontend(vip))
      if (isLocal) this.#enter('KUBE-LOAD-BALANCER-LOCAL', frontend(vip))
      this.#guard(of, vip)
      this.#serve(of, { vip, port, localOnly: isLocal })
    }
    if (of.nodePort !== undefined) this.#addNodePort(of, of.nodePort)
    if (of.healthCheckNodePort !== undefined)
      this.#enter('KUBE-HEALTH-CHECK-NODE-PORT', `${of.healthCheckNodePort}`)
  }

  #addNodePort(of: KubeProxyPort, nodePort: number): void {
    const isTcp = of.protocol === 'tcp'
    this.#enter(isTcp ? 'KUBE-NODE-PORT-TCP' : 'KUBE-NODE-PORT-UDP', `${nodePort}`)
    if (of.isLocal === true)
      this.#enter(isTcp ? 'KUBE-NODE-PORT-LOCAL-TCP' : 'KUBE-NODE-PORT-LOCAL-UDP', `${nodePort}`)
    for (const vip of this.#node.addresses)
      this.#serve(of, { vip, port: nodePort, localOnly: of.isLocal ?? false, isNodes: true })
  }

  /** Adds the entries for source ranges. */
  #guard({ protocol, port, sourceRanges = [] }: KubeProxyPort, vip: string): void {
    if (sourceRanges.length === 0) return
    this.#enter('KUBE-LOAD-BALANCER-FW', `${vip},${protocol}:${port}`)
    for (const range of sourceRanges)
      this.#enter('KUBE-LOAD-BALANCER-SOURCE-CIDR', `${vip},${protocol}:${port},${range}`)
    const { address } = this.#node
    // The ranges of the tests end at a group boundary of the address.
    const isNodeIn = sourceRanges.some((range) => address.startsWith(range.replace(/(?:\.0|:)\/\d+$/u, '')))
    if (isNodeIn) this.#enter('KUBE-LOAD-BALANCER-SOURCE-IP', `${vip},${protocol}:${port},${vip}`)
    else
      this.#outFilter.push(
        `-A KUBE-IPVS-OUT-FILTER -s ${vip} -m ipvs --vaddr ${vip} --vproto ${protocol} --vport ${port} -j DROP`,
      )
  }

  #serve(
    { protocol, affinitySeconds, endpoints }: KubeProxyPort,
    at: {
      readonly vip: string
      readonly port: number
      readonly localOnly: boolean
      readonly isNodes?: boolean
    },
  ): void {
    const { vip, port, localOnly, isNodes = false } = at
    if (!isNodes) this.vips.add(vip)
    const server = `-${protocol === 'tcp' ? 't' : 'u'} ${bracketed(vip)}:${port}`
    const persistence = affinitySeconds === undefined ? '' : ` -p ${affinitySeconds}`
    this.#servers.push(`-A ${server} -s rr${persistence}`)
    const chosen = endpoints.filter(({ isOnNode }) => !localOnly || isOnNode)
    for (const { address, port: own, weight } of chosen)
      this.#servers.push(`-a ${server} -r ${bracketed(address)}:${own} -m -w ${weight}`)
  }

  #natRules(): readonly string[] {
    const { family, clusterCidr } = this.#node
    const masquerade = 'KUBE-MARK-MASQ'
    const direct = '-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT'
    const own = '-m addrtype --dst-type LOCAL -j ACCEPT'
    const services = (set: SetName, rest: string): readonly string[] =>
      this.#onSet('KUBE-SERVICES', set, 'dst,dst', rest)
    return [
      `-A KUBE-SERVICES -s ${family === 'IPv4' ? '127.0.0.0/8' : '::1/128'} -j RETURN`,
      ...services('KUBE-LOAD-BALANCER', '-j KUBE-LOAD-BALANCER'),
      ...services('KUBE-CLUSTER-IP', `! -s ${clusterCidr} -j ${masquerade}`),
      ...services('KUBE-EXTERNAL-IP', `-j ${masquerade}`),
      ...services('KUBE-EXTERNAL-IP', direct),
      ...services('KUBE-EXTERNAL-IP', own),
      ...services('KUBE-EXTERNAL-IP-LOCAL', direct),
      ...services('KUBE-EXTERNAL-IP-LOCAL', own),
      '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
      ...(['KUBE-CLUSTER-IP', 'KUBE-LOAD-BALANCER'] as const)
        .filter((set) => this.#entries.has(set))
        .map((set) => `-A KUBE-SERVICES -m set --match-set ${this.#set(set)} dst,dst -j ACCEPT`),
      ...this.#onSet('KUBE-LOAD-BALANCER', 'KUBE-LOAD-BALANCER-LOCAL', 'dst,dst', '-j RETURN'),
      `-A KUBE-LOAD-BALANCER -j ${masquerade}`,
      ...(['TCP', 'UDP'] as const).flatMap((protocol) => {
        const place = `KUBE-NODE-PORT -p ${protocol.toLowerCase()}`
        return [
          ...this.#onSet(place, `KUBE-NODE-PORT-LOCAL-${protocol}`, 'dst', '-j RETURN'),
          ...this.#onSet(place, `KUBE-NODE-PORT-${protocol}`, 'dst', `-j ${masquerade}`),
        ]
      }),
      ...this.#onSet('KUBE-POSTROUTING', 'KUBE-LOOP-BACK', 'dst,dst,src', '-j MASQUERADE'),
      `-A KUBE-POSTROUTING -m mark ! --mark ${mark}/${mark} -j RETURN`,
      `-A KUBE-POSTROUTING -j MARK --xor-mark ${mark}`,
      '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
      `-A ${masquerade} -j MARK --or-mark ${mark}`,
    ]
  }

  #filterRules(): readonly string[] {
    const health = this.#set('KUBE-HEALTH-CHECK-NODE-PORT')
    const known = [
      'KUBE-LOAD-BALANCER',
      'KUBE-CLUSTER-IP',
      'KUBE-EXTERNAL-IP',
      'KUBE-EXTERNAL-IP-LOCAL',
    ] as const
    const ranges = 'KUBE-SOURCE-RANGES-FIREWALL'
    return [
      ...this.#onSet('KUBE-PROXY-FIREWALL', 'KUBE-LOAD-BALANCER-FW', 'dst,dst', `-j ${ranges}`),
      ...this.#onSet(ranges, 'KUBE-LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src', '-j RETURN'),
      ...this.#onSet(ranges, 'KUBE-LOAD-BALANCER-SOURCE-IP', 'dst,dst,src', '-j RETURN'),
      `-A ${ranges} -j DROP`,
      ...this.#outFilter,
      `-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark ${mark}/${mark} -j ACCEPT`,
      '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      `-A KUBE-NODE-PORT -m comment --comment "${comments['KUBE-HEALTH-CHECK-NODE-PORT'] ?? ''}" -m set --match-set ${health} dst -j ACCEPT`,
      ...known.map((set) => `-A KUBE-IPVS-FILTER -m set --match-set ${this.#set(set)} dst,dst -j RETURN`),
      `-A KUBE-IPVS-FILTER -m set --match-set ${health} dst -j RETURN`,
      `-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set ${this.#set('KUBE-IPVS-IPS')} dst -j REJECT`,
    ]
  }

  /** A rule that matches a set. kube-proxy writes it only if the set has entries. `place`: its chain and first matches. */
  #onSet(place: string, set: SetName, directions: string, rest: string): readonly string[] {
    if (!this.#entries.has(set)) return []
    const comment = `-m comment --comment "${comments[set] ?? ''}"`
    return [`-A ${place} ${comment} -m set --match-set ${this.#set(set)} ${directions} ${rest}`]
  }

  #enter(set: SetName, entry: string): void {
    const entries = this.#entries.get(set) ?? new Set()
    this.#entries.set(set, entries.add(entry))
  }

  /** The set's name in this family. */
  #set(name: SetName): string {
    return this.#node.family === 'IPv4' ? name : name.replace('KUBE-', 'KUBE-6-').slice(0, 31)
  }
}

function jump(hook: string, chain: string, comment: string): string {
  return `-I ${hook} -m comment --comment "${comment}" -j ${chain}`
}

function bracketed(address: string): string {
  return address.includes(':') ? `[${address}]` : address
}

/** Runs a command with these lines as its input. The command must succeed. */
export async function feed(
  node: Namespace,
  texts: readonly string[],
  ...command: readonly string[]
): Promise<void> {
  const script = 'text=$1; shift; printf "%s\\n" "$text" | "$@"'
  await node.must('sh', '-c', script, 'sh', texts.join('\n'), ...command)
}
