// Services of a node that kube-proxy leaves to the agent: as kube-proxy has them, and as the manifests say now.
import type { KubeProxyEndpoint, KubeProxyNode, KubeProxyPort } from '../support/kube-proxy-ipvs.js'
import type { LoadPath } from '../support/load.js'
import type { ProbeTarget } from '../support/probes.js'
import { type Family, families, type Pair } from './table/world.js'

interface TakeoverEndpoint {
  readonly number: number
  /** On the node itself; else on another. */
  readonly isOnNode?: true
  /** kube-proxy took its weight: it had left the Service, or has. */
  readonly isDraining?: true
  /** No manifest has it. */
  readonly isGone?: true
}

/** One Service of one port in both families; addresses follow from its number. */
export interface TakeoverService {
  readonly number: number
  readonly protocol: 'TCP' | 'UDP'
  readonly nodePort?: number
  readonly hasExternalIP?: true
  readonly hasLoadBalancer?: true
  readonly sourceRanges?: Pair
  /** externalTrafficPolicy Local. */
  readonly isLocal?: true
  readonly healthCheckNodePort?: number
  readonly affinitySeconds?: number
  readonly endpoints: readonly TakeoverEndpoint[]
  /** kube-proxy did not live to see that it was deleted. */
  readonly isGone?: true
}

const here = { number: 1, isOnNode: true } as const
const there = { number: 2 } as const

export const takeoverServices = {
  dns: { number: 10, protocol: 'UDP', nodePort: 30053, endpoints: [here, there] },
  web: { number: 20, protocol: 'TCP', nodePort: 30080, hasExternalIP: true, endpoints: [here, there] },
  local: {
    number: 21,
    protocol: 'TCP',
    nodePort: 30081,
    hasLoadBalancer: true,
    isLocal: true,
    healthCheckNodePort: 32081,
    endpoints: [here, there],
  },
  guarded: {
    number: 22,
    protocol: 'TCP',
    hasLoadBalancer: true,
    sourceRanges: { IPv4: '192.168.50.0/24', IPv6: 'fd00:192::/64' },
    endpoints: [there],
  },
  barred: {
    number: 23,
    protocol: 'TCP',
    hasLoadBalancer: true,
    sourceRanges: { IPv4: '192.0.2.0/24', IPv6: '2001:db8:2::/64' },
    endpoints: [there],
  },
  sticky: { number: 24, protocol: 'TCP', affinitySeconds: 600, endpoints: [here, there, { number: 3 }] },
  back: {
    number: 25,
    protocol: 'TCP',
    endpoints: [here, { ...there, isDraining: true }, { number: 3, isDraining: true, isGone: true }],
  },
  dead: { number: 26, protocol: 'TCP', endpoints: [{ ...there, isDraining: true }] },
  gone: { number: 27, protocol: 'TCP', nodePort: 30099, endpoints: [there], isGone: true },
} as const satisfies Readonly<Record<string, TakeoverService>>

type ServiceName = keyof typeof takeoverServices
const services: readonly (readonly [string, TakeoverService])[] = Object.entries(takeoverServices)

/** Of the node: towards the client, and towards its pods. */
export const nodeAddresses: Readonly<Record<Family, readonly [string, string]>> = {
  IPv4: ['192.168.50.1', '10.244.0.1'],
  IPv6: ['fd00:192::1', 'fd00:10:244::1'],
}
export const clientAddresses: Pair = { IPv4: '192.168.50.10', IPv6: 'fd00:192::10' }
/** A pod on the node without a Service. */
export const podClientAddresses: Pair = { IPv4: '10.244.255.9', IPv6: 'fd00:10:244::ff:9' }
export const clusterCidrs: Pair = { IPv4: '10.244.0.0/16', IPv6: 'fd00:10:244::/64' }

const servicePort = 80
const targetPort = 8080

function isIPv4(family: Family): boolean {
  return family === 'IPv4'
}

function clusterIP({ number }: TakeoverService, family: Family): string {
  return isIPv4(family) ? `10.96.0.${number}` : `fd00:10:96::${number}`
}

function externalIP({ number }: TakeoverService, family: Family): string {
  return isIPv4(family) ? `198.51.100.${number}` : `2001:db8:100::${number}`
}

function loadBalancerIP({ number }: TakeoverService, family: Family): string {
  return isIPv4(family) ? `203.0.113.${number}` : `2001:db8:113::${number}`
}

function endpointAddress(of: TakeoverService, endpoint: { readonly number: number }, family: Family): string {
  const network = isIPv4(family) ? '10.244.' : 'fd00:10:244::'
  return `${network}${of.number}${isIPv4(family) ? '.' : ':'}${endpoint.number}`
}

/** What kube-proxy made of them, in one family. */
export function kubeProxyNode(family: Family): KubeProxyNode {
  return {
    family,
    address: nodeAddresses[family][0],
    addresses: nodeAddresses[family],
    clusterCidr: clusterCidrs[family],
    ports: services.map(([, of]) => kubeProxyPort(of, family)),
  }
}

function kubeProxyPort(of: TakeoverService, family: Family): KubeProxyPort {
  const { nodePort, healthCheckNodePort, affinitySeconds, sourceRanges, hasExternalIP, hasLoadBalancer } = of
  return {
    protocol: of.protocol === 'TCP' ? 'tcp' : 'udp',
    port: servicePort,
    clusterIP: clusterIP(of, family),
    externalIPs: hasExternalIP === true ? [externalIP(of, family)] : [],
    loadBalancerIPs: hasLoadBalancer === true ? [loadBalancerIP(of, family)] : [],
    sourceRanges: sourceRanges === undefined ? [] : [sourceRanges[family]],
    isLocal: of.isLocal === true,
    ...(nodePort === undefined ? {} : { nodePort }),
    ...(healthCheckNodePort === undefined ? {} : { healthCheckNodePort }),
    ...(affinitySeconds === undefined ? {} : { affinitySeconds }),
    endpoints: of.endpoints.map((endpoint): KubeProxyEndpoint => ({
      address: endpointAddress(of, endpoint, family),
      port: targetPort,
      isOnNode: endpoint.isOnNode === true,
      weight: endpoint.isDraining === true ? 0 : 1,
    })),
  }
}

/** Every server that may be asked. */
export const takeoverServers: readonly ProbeTarget[] = services.flatMap(([, of]) =>
  families.flatMap((family) =>
    of.endpoints.map((endpoint) => ({
      protocol: of.protocol,
      address: endpointAddress(of, endpoint, family),
      port: targetPort,
    })),
  ),
)

/** Text of a manifest for each Service that is not gone, and for the node. */
export function takeoverManifests(): ReadonlyMap<string, string> {
  const node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'node-a' },
    status: {
      addresses: families.map((family) => ({ type: 'InternalIP', address: nodeAddresses[family][0] })),
    },
  }
  const present = services.filter(([, { isGone }]) => isGone !== true)
  return new Map([
    ['node', JSON.stringify(node)],
    ...present.map(([name, of]) => [name, serviceManifest(name, of)] as const),
  ])
}

/** The Service `web` without its endpoint elsewhere. */
export function webWithOneEndpoint(): string {
  return serviceManifest('web', { ...takeoverServices.web, endpoints: [here] })
}

function serviceManifest(name: string, of: TakeoverService): string {
  const metadata = { namespace: 'default', name }
  const { protocol, nodePort, sourceRanges, healthCheckNodePort, affinitySeconds } = of
  const type =
    of.hasLoadBalancer === true ? 'LoadBalancer' : nodePort === undefined ? 'ClusterIP' : 'NodePort'
  const spec = {
    type,
    clusterIP: clusterIP(of, 'IPv4'),
    clusterIPs: families.map((family) => clusterIP(of, family)),
    ipFamilies: families,
    ipFamilyPolicy: 'RequireDualStack',
    ports: [{ protocol, port: servicePort, targetPort, nodePort }],
    externalIPs: of.hasExternalIP === true ? families.map((family) => externalIP(of, family)) : undefined,
    externalTrafficPolicy: of.isLocal === true ? 'Local' : undefined,
    healthCheckNodePort,
    loadBalancerSourceRanges: sourceRanges && families.map((family) => sourceRanges[family]),
    sessionAffinity: affinitySeconds === undefined ? undefined : 'ClientIP',
    sessionAffinityConfig: affinitySeconds && { clientIP: { timeoutSeconds: affinitySeconds } },
  }
  const ingress = families.map((family) => ({ ip: loadBalancerIP(of, family) }))
  const status = of.hasLoadBalancer === true ? { loadBalancer: { ingress } } : undefined
  const slices = families.map((family) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: 'default',
      name: `${name}-${family.toLowerCase()}`,
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType: family,
    ports: [{ port: targetPort, protocol }],
    endpoints: of.endpoints
      .filter(({ isGone }) => isGone !== true)
      .map((endpoint) => ({
        addresses: [endpointAddress(of, endpoint, family)],
        nodeName: endpoint.isOnNode === true ? 'node-a' : 'node-b',
      })),
  }))
  const items = [{ apiVersion: 'v1', kind: 'Service', metadata, spec, status }, ...slices]
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
}

/** A frontend of a Service. */
type Frontend = 'cluster IP' | 'node port' | 'external IP' | 'load balancer'

/** The load on one of the frontends, in one family. */
function pathTo(
  kind: LoadPath['kind'],
  service: ServiceName,
  {
    frontend,
    family = 'IPv4',
    by,
    sees = null,
  }: {
    readonly frontend: Frontend
    readonly family?: Family
    /** Numbers of the endpoints that may answer; absent: all that have their weight. */
    readonly by?: readonly number[]
    readonly sees?: string | null
  },
): LoadPath {
  const of: TakeoverService = takeoverServices[service]
  const addresses: Readonly<Record<Frontend, string>> = {
    'cluster IP': clusterIP(of, family),
    'node port': nodeAddresses[family][0],
    'external IP': externalIP(of, family),
    'load balancer': loadBalancerIP(of, family),
  }
  const numbers = by ?? of.endpoints.filter(({ isGone }) => isGone !== true).map(({ number }) => number)
  return {
    name: `${kind}: ${service} ${frontend} ${family}`,
    kind,
    address: addresses[frontend],
    port: frontend === 'node port' ? (of.nodePort ?? 0) : servicePort,
    by: numbers.map((number) => endpointAddress(of, { number }, family)),
    sees,
  }
}

const atClusterIP = { frontend: 'cluster IP' } as const
const atNodePort = { frontend: 'node port' } as const
const kept = { by: [1], sees: clientAddresses.IPv4 } as const

/** Who asks whom, all at once. */
export const takeoverLoad: Readonly<Record<'pod' | 'node' | 'outside', readonly LoadPath[]>> = {
  pod: [
    pathTo('connection', 'web', atClusterIP),
    pathTo('connection', 'web', { ...atClusterIP, family: 'IPv6' }),
    pathTo('connection', 'web', atNodePort),
    pathTo('connection', 'back', atClusterIP),
    pathTo('connection', 'local', { frontend: 'load balancer' }),
    pathTo('exchange', 'web', atClusterIP),
    pathTo('query', 'dns', atClusterIP),
    pathTo('query', 'dns', { ...atClusterIP, family: 'IPv6' }),
  ],
  node: [
    pathTo('connection', 'web', atClusterIP),
    pathTo('connection', 'web', { ...atClusterIP, family: 'IPv6' }),
    pathTo('connection', 'web', atNodePort),
    pathTo('exchange', 'web', atClusterIP),
    pathTo('exchange', 'web', { ...atClusterIP, family: 'IPv6' }),
    pathTo('query', 'dns', atClusterIP),
  ],
  outside: [
    pathTo('connection', 'web', atNodePort),
    pathTo('connection', 'web', { ...atNodePort, family: 'IPv6' }),
    pathTo('connection', 'web', { frontend: 'external IP' }),
    pathTo('connection', 'local', { frontend: 'load balancer', ...kept }),
    pathTo('connection', 'local', { ...atNodePort, ...kept }),
    pathTo('connection', 'guarded', { frontend: 'load balancer' }),
    pathTo('connection', 'sticky', atClusterIP),
    pathTo('exchange', 'web', atNodePort),
    pathTo('exchange', 'local', { frontend: 'load balancer', ...kept }),
    pathTo('query', 'dns', atNodePort),
  ],
}

/** Over the real server that is no longer desired, as long as its client stays. */
export const leftoverPath: LoadPath = pathTo('exchange', 'back', { ...atClusterIP, by: [3] })

/** `ipvsadm -Sn` of the real servers of a Service by its cluster IP: address and weight, sorted. */
export function realServersOf(
  service: ServiceName,
  family: Family,
  saved: readonly string[],
): readonly string[] {
  const own = clusterIP(takeoverServices[service], family)
  const place = ` ${isIPv4(family) ? own : `[${own}]`}:${servicePort} -r `
  return saved.flatMap((line) => {
    const parts = /-r \[?([0-9a-f.:]+?)\]?:\d+ .*-w (\d+)/u.exec(line)
    return line.includes(place) && parts !== null ? [`${parts[1] ?? ''} ${parts[2] ?? ''}`] : []
  })
}
