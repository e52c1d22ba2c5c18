// The table of kube-proxy 1.36 in nftables mode, as the transaction of its first sync (spec/kube-proxy.md 5.2, 5.3).
import { createHash } from 'node:crypto'
import type { Namespace } from './namespaces.js'

export interface KubeProxyNftPort {
  /** `namespace/service`. */
  readonly service: string
  readonly portName: string
  readonly protocol: 'tcp' | 'udp'
  readonly clusterIP: string
  readonly port: number
  readonly nodePort?: number
  readonly affinitySeconds?: number
  readonly endpoints: readonly string[]
  readonly targetPort: number
}

export interface KubeProxyNftNode {
  readonly family: 'IPv4' | 'IPv6'
  /** Addresses that serve node ports; `all`: every local address. */
  readonly addresses: readonly string[] | 'all'
  /** kube-proxy 1.37 with its gate KubeProxyNFTablesLocalhostNodePorts: named counters of refused packets to loopback addresses. */
  readonly countsRefused?: boolean
  readonly clusterCidr: string
  readonly ports: readonly KubeProxyNftPort[]
}

/** `name { hook }` of each base chain. */
const baseChains: Readonly<Record<string, string>> = {
  'filter-prerouting-pre-dnat': 'type filter hook prerouting priority -110',
  'filter-output-pre-dnat': 'type filter hook output priority -110',
  'filter-input': 'type filter hook input priority 0',
  'filter-forward': 'type filter hook forward priority 0',
  'filter-output': 'type filter hook output priority 0',
  'nat-prerouting': 'type nat hook prerouting priority -100',
  'nat-output': 'type nat hook output priority -100',
  'nat-postrouting': 'type nat hook postrouting priority 100',
}

/** From, to; in kube-proxy's order. */
const jumps: readonly (readonly [string, string])[] = [
  ['filter-input', 'ct state new jump nodeport-endpoints-check'],
  ['filter-input', 'ct state new jump service-endpoints-check'],
  ['filter-forward', 'ct state new jump service-endpoints-check'],
  ['filter-output', 'ct state new jump service-endpoints-check'],
  ['filter-prerouting-pre-dnat', 'ct state new jump firewall-check'],
  ['filter-output-pre-dnat', 'ct state new jump firewall-check'],
  ['nat-output', 'jump services'],
  ['nat-prerouting', 'jump services'],
  ['nat-postrouting', 'jump masquerading'],
  ['filter-forward', 'ct state new jump cluster-ips-check'],
  ['filter-output', 'ct state new jump cluster-ips-check'],
]

const mark = '0x00004000'

/** Names of chains, maps and sets that kube-proxy has and Viaduct never has; Services' own contain a slash. */
export const kubeProxyOnly: readonly string[] = [
  'reject-chain',
  'service-ips',
  'service-nodeports',
  'no-endpoint-services',
  'no-endpoint-nodeports',
  'firewall-ips',
]

/**
 * The transaction of kube-proxy's first sync. It deletes and adds the base chains, regardless of their hooks, empties the other chains of its own, and adds its
 * sets, maps, chains and rules. Chains and sets that it does not know stay.
 */
export function kubeProxyTransaction(node: KubeProxyNftNode): string {
  return new KubeProxyTable(node).lines.join('\n')
}

/** Applies the transactions of both families as kube-proxy does. Throws with what nft says. */
export async function writeKubeProxyTables(
  namespace: Namespace,
  nodes: readonly KubeProxyNftNode[],
): Promise<void> {
  for (const node of nodes)
    await namespace.must('sh', '-c', 'printf "%s\\n" "$1" | nft -f -', 'sh', kubeProxyTransaction(node))
}

class KubeProxyTable {
  readonly #node: KubeProxyNftNode
  readonly #ip: 'ip' | 'ip6'
  readonly #table: string
  readonly #chains = new Set<string>()
  readonly #rules: string[] = []
  readonly #sets: string[] = []
  readonly #elements: string[] = []

  constructor(node: KubeProxyNftNode) {
    this.#node = node
    this.#ip = node.family === 'IPv4' ? 'ip' : 'ip6'
    this.#table = `${this.#ip} kube-proxy`
    this.#addSets()
    this.#addChecks()
    for (const port of node.ports) this.#addPort(port)
  }

  get lines(): readonly string[] {
    const table = this.#table
    return [
      `add table ${table} { comment "rules for kube-proxy"; }`,
      ...Object.entries(baseChains).flatMap(([name, hook]) => [
        `add chain ${table} ${name}`,
        `delete chain ${table} ${name}`,
        `add chain ${table} ${name} { ${hook}; }`,
      ]),
      ...[...this.#chains].flatMap((name) => [`add chain ${table} ${name}`, `flush chain ${table} ${name}`]),
      ...this.#sets,
      ...this.#nodePortAddresses(),
      ...this.#refusedCounters(),
      ...jumps.map(([from, rule]) => `add rule ${table} ${from} ${rule}`),
      ...this.#rules,
      ...this.#elements,
    ]
  }

  #addSets(): void {
    const address = this.#node.family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr'
    const service = `${address} . inet_proto . inet_service`
    this.#set('set', 'cluster-ips', address, 'Active ClusterIPs')
    this.#set('set', 'nodeport-ips', address, 'IPs that accept NodePort traffic')
    this.#set(
      'set',
      'hairpin-connections',
      `${address} . ${address} . inet_proto . inet_service`,
      'service hairpin connections',
    )
    this.#set('map', 'firewall-ips', `${service} : verdict`, 'LoadBalancerSourceRanges')
    this.#set('map', 'no-endpoint-services', `${service} : verdict`, 'services with no endpoints')
    this.#set(
      'map',
      'service-ips',
      `${service} : verdict`,
      'ClusterIP, ExternalIP and LoadBalancer IP traffic',
    )
    this.#set('map', 'no-endpoint-nodeports', 'inet_proto . inet_service : verdict', 'no endpoints')
    this.#set('map', 'service-nodeports', 'inet_proto . inet_service : verdict', 'NodePort traffic')
  }

  /** The set is made, and then deleted where all addresses serve: a deletion alone would fail without the set. */
  #nodePortAddresses(): readonly string[] {
    const { addresses } = this.#node
    const name = `${this.#table} nodeport-ips`
    if (addresses === 'all') return [`delete set ${name}`]
    return [`flush set ${name}`, ...addresses.map((own) => `add element ${name} { ${own} }`)]
  }

  /** With the gate, chains of UDP and SCTP; TCP is served. */
  #refusedCounters(): readonly string[] {
    const table = this.#table
    const map = `${table} localhost-nodeport-reject-ports`
    const counted = this.#node.countsRefused === true ? ['udp', 'sctp'] : []
    return [
      `add map ${map} { type inet_proto . inet_service : verdict; }`,
      ...(counted.length === 0 ? [`delete map ${map}`] : []),
      ...['tcp', 'udp', 'sctp'].flatMap((protocol) => {
        const chain = `${table} localhost-nodeport-reject-${protocol}`
        const counter = `localhost-nodeport-rejected-${protocol}`
        const make = [`add chain ${chain}`, `add counter ${table} ${counter}`]
        return counted.includes(protocol)
          ? [...make, `flush chain ${chain}`, `add rule ${chain} counter name "${counter}" reject`]
          : [...make, `delete chain ${chain}`, `delete counter ${table} ${counter}`]
      }),
    ]
  }

  /** Matches packets to an address that serves node ports. */
  get #toNodePort(): string {
    const { addresses, family } = this.#node
    if (addresses !== 'all') return `${this.#ip} daddr @nodeport-ips`
    return family === 'IPv4'
      ? 'fib daddr type local ip daddr != 127.0.0.0/8'
      : 'fib daddr type local ip6 daddr != ::1'
  }

  #addChecks(): void {
    const ip = this.#ip
    const key = `${ip} daddr . meta l4proto . th dport`
    this.#rule('nodeport-endpoints-check', [
      `${this.#toNodePort} meta l4proto . th dport vmap @no-endpoint-nodeports`,
    ])
    this.#rule('service-endpoints-check', [`${key} vmap @no-endpoint-services`])
    this.#rule('firewall-check', [`${key} vmap @firewall-ips`])
    this.#rule('services', [
      `${ip} daddr @cluster-ips ${ip} saddr != ${this.#node.clusterCidr} meta mark set meta mark or ${mark}`,
      `${key} vmap @service-ips`,
      `${this.#toNodePort} meta l4proto . th dport vmap @service-nodeports`,
    ])
    this.#rule('masquerading', [
      `meta mark & ${mark} != 0 meta mark set meta mark ^ ${mark} masquerade fully-random`,
      `ct status dnat ${ip} saddr . ${ip} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random`,
    ])
    this.#rule('cluster-ips-check', [`${ip} daddr @cluster-ips reject`])
    this.#rule('reject-chain', ['reject'])
  }

  #addPort(of: KubeProxyNftPort): void {
    const { clusterIP, port, nodePort, protocol, endpoints } = of
    const frontend = `${clusterIP} . ${protocol} . ${port}`
    this.#element('cluster-ips', clusterIP)
    if (endpoints.length === 0) {
      this.#element('no-endpoint-services', `${frontend} : goto reject-chain`)
      if (nodePort !== undefined)
        this.#element('no-endpoint-nodeports', `${protocol} . ${nodePort} : goto reject-chain`)
      return
    }
    const chain = hashed(`${of.service}/${protocol}/${of.portName}`)
    this.#addServiceChain(`service-${chain}`, of)
    this.#element('service-ips', `${frontend} : goto service-${chain}`)
    if (nodePort === undefined) return
    this.#rule(`external-${chain}`, [`meta mark set meta mark or ${mark}`, `goto service-${chain}`])
    this.#element('service-nodeports', `${protocol} . ${nodePort} : goto external-${chain}`)
  }

  #addServiceChain(name: string, of: KubeProxyNftPort): void {
    const { endpoints, targetPort, protocol, affinitySeconds } = of
    const ip = this.#ip
    const choice = `numgen random mod ${endpoints.length}`
    if (affinitySeconds === undefined) {
      const data = endpoints.map((address, index) => `${index} : ${address} . ${targetPort}`)
      this.#rule(name, [
        `meta l4proto ${protocol} dnat ${ip} addr . port to ${choice} map { ${data.join(', ')} }`,
      ])
      return
    }
    const own = endpoints.map((address) => {
      const base = `${of.service}/${protocol}/${of.portName}__${address.replaceAll(':', '.')}/${targetPort}`
      return { address, chain: `endpoint-${hashed(base)}`, set: `affinity-${hashed(base)}` }
    })
    for (const { address, chain, set } of own) {
      const type = this.#node.family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr'
      this.#sets.push(
        `add set ${this.#table} ${set} { type ${type}; flags dynamic,timeout; timeout ${affinitySeconds}s; }`,
      )
      const server = this.#node.family === 'IPv4' ? address : `[${address}]`
      this.#rule(chain, [
        `update @${set} { ${ip} saddr }`,
        `meta l4proto ${protocol} dnat to ${server}:${targetPort}`,
      ])
    }
    const verdicts = own.map(({ chain }, index) => `${index} : goto ${chain}`)
    this.#rule(name, [
      ...own.map(({ chain, set }) => `${ip} saddr @${set} goto ${chain}`),
      `${choice} vmap { ${verdicts.join(', ')} }`,
    ])
  }

  #set(kind: 'set' | 'map', name: string, type: string, comment: string): void {
    this.#sets.push(`add ${kind} ${this.#table} ${name} { type ${type}; comment "${comment}"; }`)
  }

  #rule(chain: string, rules: readonly string[]): void {
    this.#chains.add(chain)
    this.#rules.push(...rules.map((rule) => `add rule ${this.#table} ${chain} ${rule}`))
  }

  #element(set: string, element: string): void {
    this.#elements.push(`add element ${this.#table} ${set} { ${element} }`)
  }
}

/** kube-proxy's name of a chain or set: the first 8 characters of a hash in base32, then the readable name. */
function hashed(base: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = BigInt(`0x${createHash('sha256').update(base).digest('hex').slice(0, 10)}`)
  const digits = Array.from(
    { length: 8 },
    (_, index) => alphabet[Number((bits >> BigInt(35 - 5 * index)) & 31n)],
  )
  return `${digits.join('')}-${base}`
}
