// A node that changes its proxy, or the proxy's mode, while clients outside and the node itself make connections without end.
//   client 192.0.2.2 ── node 192.0.2.1 | 10.1.255.254 ── pods 10.1.0.1 …, one namespace for all
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProxyMode } from '../../src/config/index.js'
import { apiService, apiSlice } from '../support/api-documents.js'
import type { Document } from '../support/api-shapes.js'
import type { KubeProxyNftNode, KubeProxyNftPort } from '../support/kube-proxy-nftables.js'
import { Load, type LoadCounts, type LoadPath, sumOf } from '../support/load.js'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { Prober } from '../support/probes.js'
import { eventually } from '../support/traffic.js'
import { AgentProcess } from './agent-process.js'
import { type ForeignOptions, hostPort, writeForeignChains } from './foreign-chains.js'
import { type Family, families, type Pair } from './table/world.js'

const nodeAddresses: Pair = { IPv4: '192.0.2.1', IPv6: 'fd00:192::1' }
const clientAddresses: Pair = { IPv4: '192.0.2.2', IPv6: 'fd00:192::2' }
const podGateways: Pair = { IPv4: '10.1.255.254', IPv6: 'fd00:10:1::ffff' }
export const clusterCidrs: Pair = { IPv4: '10.1.0.0/16', IPv6: 'fd00:10:1::/64' }
export const endpointCount = 8
const nodePort = 30080
const targetPort = 8080
/** A wait longer than this is a failure. */
const limitMs = 60_000

const services = {
  web: { number: 10, protocols: ['TCP', 'UDP'], nodePort, affinitySeconds: undefined },
  sticky: { number: 11, protocols: ['TCP'], nodePort: 30081, affinitySeconds: 600 },
  dead: { number: 12, protocols: ['TCP'], nodePort: undefined, affinitySeconds: undefined },
  /** Its only endpoint is the first pod. It has a health check port. */
  self: { number: 13, protocols: ['TCP'], nodePort: undefined, affinitySeconds: undefined },
} as const
type ServiceName = keyof typeof services
const names: readonly ServiceName[] = ['web', 'sticky', 'dead']

/** Properties of a lab. */
export interface LabOptions {
  /** The Services; without `sticky`, none has session affinity. */
  readonly services: readonly ServiceName[]
}

function podAddress(family: Family, number: number): string {
  return family === 'IPv4' ? `10.1.0.${number}` : `fd00:10:1::${number}`
}

function clusterIP(family: Family, service: ServiceName): string {
  const { number } = services[service]
  return family === 'IPv4' ? `10.96.0.${number}` : `fd00:10:96::${number}`
}

function addressesOf(family: Family): readonly string[] {
  return Array.from({ length: endpointCount }, (_, index) => podAddress(family, index + 1))
}

/** The whole lab; `close` ends everything. */
export class SwitchLab {
  readonly #spaces: readonly Namespace[]
  readonly #folder: string
  readonly #loads: readonly Load[]
  readonly #services: readonly ServiceName[]
  readonly node: Namespace

  private constructor(
    folder: string,
    { client, node, pods }: Readonly<Record<'client' | 'node' | 'pods', Namespace>>,
    { services: served }: LabOptions,
  ) {
    this.node = node
    this.#spaces = [client, node, pods]
    this.#folder = folder
    this.#services = served
    const clients = served.includes('self') ? [node, client, pods] : [node, client]
    this.#loads = clients.map((space) => new Load(space))
  }

  /** All servers answer; nothing leads to them yet. */
  static async create(options: LabOptions = { services: names }): Promise<SwitchLab> {
    const [client, node, pods] = await Promise.all([
      Namespace.create('client'),
      Namespace.create('node'),
      Namespace.create('pods'),
    ])
    await joinAll(client, node, pods)
    const servers = (['TCP', 'UDP'] as const).flatMap((protocol) =>
      families.flatMap((family) =>
        addressesOf(family).map((address) => ({ protocol, address, port: targetPort })),
      ),
    )
    await new Prober(pods).serve(servers)
    const folder = await mkdtemp(join(tmpdir(), 'viaduct-switch-'))
    const lab = new SwitchLab(folder, { client, node, pods }, options)
    await mkdir(lab.#manifests)
    await lab.publish(endpointCount)
    return lab
  }

  get #manifests(): string {
    return join(this.#folder, 'manifests')
  }

  /** Manifests in which the Services have the first endpoints, so many. As an editor does: a new file over the old one. */
  async publish(endpoints: number): Promise<void> {
    await this.#write('all', documents(this.#services, endpoints))
  }

  /** Manifests of so many more Services, each with one endpoint, in IPv4. */
  async publishMore(count: number): Promise<void> {
    const perFile = 1000
    for (let first = 0; first < count; first += perFile) {
      const numbers = Array.from({ length: Math.min(perFile, count - first) }, (_, index) => first + index)
      await this.#write(`more-${first}`, numbers.flatMap(plainDocuments))
    }
  }

  async #write(name: string, items: readonly object[]): Promise<void> {
    await writeFile(join(this.#folder, 'edited'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
    await rename(join(this.#folder, 'edited'), join(this.#manifests, `${name}.json`))
  }

  /** The objects of `publish`, for an API server. */
  objects(endpoints: number): readonly Document[] {
    return documents(this.#services, endpoints)
  }

  /** The node as kube-proxy's nftables mode programs it, in both families. */
  get kubeProxyNodes(): readonly KubeProxyNftNode[] {
    return families.map((family) => ({
      family,
      addresses: [nodeAddresses[family]],
      clusterCidr: clusterCidrs[family],
      ports: names.flatMap((name) => kubeProxyPorts(family, name)),
    }))
  }

  startAgent(mode: ProxyMode, ...more: readonly string[]): AgentProcess {
    return this.startAgentOf(undefined, mode, ...more)
  }

  /** `agentFile`: as in AgentOptions. */
  startAgentOf(agentFile: string | undefined, mode: ProxyMode, ...more: readonly string[]): AgentProcess {
    const flags = ['--cluster-cidr', Object.values(clusterCidrs).join(','), ...more]
    return AgentProcess.start({ node: this.node, manifests: this.#manifests, mode, flags, agentFile })
  }

  /** Writes the chains of others on the node, whose host port leads to the first pod. */
  async writeForeignChains(options: Omit<ForeignOptions, 'pods' | 'networks'>): Promise<void> {
    const pods = { IPv4: podAddress('IPv4', 1), IPv6: podAddress('IPv6', 1) }
    await writeForeignChains(this.node, { ...options, pods, networks: clusterCidrs })
  }

  /** Begins the load; resolves when every path has been tried. */
  async startLoad(...more: readonly LoadPath[]): Promise<void> {
    const paths = families.flatMap((family) => pathsTo(family, this.#services))
    const [fromNode, fromClient, fromPods] = this.#loads
    for (const [index, load] of [fromNode, fromClient].entries())
      load?.add([...paths, ...more].map((path) => ({ ...path, name: `from ${index}, ${path.name}` })))
    fromPods?.add(families.map(pathToSelf))
    await this.#untilTried(1)
  }

  /** Does the work under load, and goes on until every path has been tried five times more. Returns what was counted. */
  async during(work: () => Promise<void>): Promise<LoadCounts> {
    await work()
    return await this.#untilTried(5)
  }

  async close(): Promise<void> {
    await Promise.all(this.#spaces.map((space) => space.close()))
    await rm(this.#folder, { recursive: true })
  }

  async #untilTried(times: number): Promise<LoadCounts> {
    let counts = await this.#take()
    const first = counts
    await eventually(
      async () => {
        counts = sumOf(counts, await this.#take())
        return Object.entries(counts).map(([name, { tried }]) => tried - (first[name]?.tried ?? 0))
      },
      (tried) => tried.every((count) => count >= times),
      limitMs,
    )
    return counts
  }

  async #take(): Promise<LoadCounts> {
    let counts: LoadCounts = {}
    for (const load of this.#loads) counts = sumOf(counts, await load.take())
    return counts
  }
}

/** Throws for a request that failed, and for a connection that took a segment sent again: something on its way was lost. */
export function assertServed(counts: LoadCounts): void {
  const bad = Object.entries(counts).filter(([, { failed, retransmitted }]) => failed + retransmitted > 0)
  assert.deepEqual(bad, [])
}

/**
 * Throws if a server other than the first ones, as many as `endpoints`, answered a new connection or a datagram. An open connection
 * keeps its server.
 */
export function assertNoneStale(counts: LoadCounts, endpoints: number): void {
  assert.deepEqual(staleServers(counts, endpoints), [])
}

/** Path and address of the servers for which `assertNoneStale` throws. */
export function staleServers(counts: LoadCounts, endpoints: number): readonly string[] {
  const current = families.flatMap((family) => addressesOf(family).slice(0, endpoints))
  return Object.entries(counts)
    .filter(([name]) => !name.includes('established'))
    .flatMap(([name, { by }]) =>
      by.filter((server) => !current.includes(server)).map((server) => `${name}: ${server}`),
    )
}

/** From everywhere to the host port of the foreign chains, masqueraded. */
export const hostPortPaths: readonly LoadPath[] = families.map((family) => ({
  name: `host port ${family}`,
  kind: 'connection',
  address: nodeAddresses[family],
  port: hostPort,
  by: [podAddress(family, 1)],
  sees: podGateways[family],
}))

/** From a pod to its own Service, which has to see the node (F-050). */
function pathToSelf(family: Family): LoadPath {
  return {
    name: `a pod to itself ${family}`,
    kind: 'connection',
    address: clusterIP(family, 'self'),
    port: 80,
    by: [podAddress(family, 1)],
    sees: podGateways[family],
  }
}

/** Each is done ten times a second. */
function pathsTo(family: Family, served: readonly ServiceName[]): readonly LoadPath[] {
  const to = (kind: LoadPath['kind'], name: string, address: string, port: number): LoadPath => ({
    name: `${name} ${family}`,
    kind,
    address,
    port,
    by: addressesOf(family),
    sees: null,
  })
  const web = clusterIP(family, 'web')
  return [
    ...Array.from({ length: 6 }, (_, index) => to('connection', `cluster IP ${index}`, web, 80)),
    ...Array.from({ length: 3 }, (_, index) =>
      to('connection', `node port ${index}`, nodeAddresses[family], nodePort),
    ),
    ...(served.includes('sticky') ? [to('connection', 'affinity', clusterIP(family, 'sticky'), 80)] : []),
    to('exchange', 'established connection', web, 80),
    to('query', 'datagrams', web, 80),
  ]
}

/** With the length of the prefix in IPv4. */
function sized({ IPv4, IPv6 }: Pair, prefixLength: number): readonly string[] {
  return [`${IPv4}/${prefixLength}`, `${IPv6}/64`]
}

function byDefault(addresses: Pair): readonly string[] {
  return Object.values(addresses).map((address) => `route add default via ${address}`)
}

async function joinAll(client: Namespace, node: Namespace, pods: Namespace): Promise<void> {
  await connect(
    { namespace: client, interfaceName: 'eth0', addresses: sized(clientAddresses, 24) },
    { namespace: node, interfaceName: 'eth0', addresses: sized(nodeAddresses, 24) },
  )
  await connect(
    {
      namespace: pods,
      interfaceName: 'eth0',
      addresses: families.flatMap((family) =>
        addressesOf(family).map((address) => `${address}/${family === 'IPv4' ? 16 : 64}`),
      ),
    },
    {
      namespace: node,
      interfaceName: 'pods',
      addresses: sized(podGateways, 16),
    },
  )
  await client.ip(...byDefault(nodeAddresses))
  // The first pod is the one that connects.
  const [viaIPv4, viaIPv6] = byDefault(podGateways)
  await pods.ip(`${viaIPv4} src ${podAddress('IPv4', 1)}`, `${viaIPv6} src ${podAddress('IPv6', 1)}`)
  // As on every node: packets that are not translated have a route.
  await node.ip(...byDefault(clientAddresses))
  await setSysctls(node, 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
  // The kernel makes the routes of addresses of IPv6 in its own time.
  await eventually(
    async () => await node.must('ip', '-6', 'route', 'show', 'table', 'local', 'type', 'local'),
    (routes) => routes.includes(`local ${nodeAddresses.IPv6} `),
    limitMs,
  )
}

function kubeProxyPorts(family: Family, name: ServiceName): readonly KubeProxyNftPort[] {
  const { protocols, affinitySeconds, nodePort: own } = services[name]
  return protocols.map((protocol): KubeProxyNftPort => ({
    service: `default/${name}`,
    portName: protocol.toLowerCase(),
    protocol: protocol === 'TCP' ? 'tcp' : 'udp',
    clusterIP: clusterIP(family, name),
    port: 80,
    ...(own === undefined ? {} : { nodePort: own }),
    ...(affinitySeconds === undefined ? {} : { affinitySeconds }),
    endpoints: name === 'dead' ? [] : addressesOf(family),
    targetPort,
  }))
}

function documents(served: readonly ServiceName[], endpoints: number): readonly Document[] {
  const most: Partial<Record<ServiceName, number>> = { dead: 0, self: 1 }
  const node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'node-a' },
    status: {
      addresses: families.map((family) => ({ type: 'InternalIP', address: nodeAddresses[family] })),
    },
  }
  return [node, ...served.flatMap((name) => serviceDocuments(name, most[name] ?? endpoints))]
}

function serviceDocuments(name: ServiceName, endpoints: number): readonly Document[] {
  const { protocols, affinitySeconds, nodePort: own } = services[name]
  const spec = {
    ...(name === 'self'
      ? { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 32_013 }
      : { type: own === undefined ? 'ClusterIP' : 'NodePort' }),
    clusterIP: clusterIP('IPv4', name),
    clusterIPs: families.map((family) => clusterIP(family, name)),
    ipFamilies: families,
    ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: 80, nodePort: own })),
    ...(affinitySeconds === undefined
      ? {}
      : {
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: affinitySeconds } },
        }),
  }
  const slices = families.map((family) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'default',
      name: `${name}-${family.toLowerCase()}`,
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType: family,
    ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: targetPort })),
    endpoints: addressesOf(family)
      .slice(0, endpoints)
      .map((address) => ({ addresses: [address] })),
  }))
  return [{ apiVersion: 'v1', kind: 'Service', metadata: { namespace: 'default', name }, spec }, ...slices]
}

function plainDocuments(index: number): readonly object[] {
  const name = `plain-${index}`
  const service = apiService(name, `10.97.${index >> 8}.${index & 255}`)
  const slice = apiSlice(name, name, [`10.1.${index >> 8}.${index & 255}`])
  return [
    { apiVersion: 'v1', kind: 'Service', ...service },
    { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...slice },
  ]
}
