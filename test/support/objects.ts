// Services and EndpointSlices as a source delivers them, with the defaults of the API server.
import type {
  EndpointSlice,
  KubernetesObject,
  NodeObject,
  ObjectEvent,
  Service,
  ServicePortSpec,
  SliceEndpoint,
} from '../../src/source/index.js'

export function service(name: string, clusterIP: string, rest: Partial<Service> = {}): Service {
  const [namespace = 'default', plain = name] = name.includes('/') ? name.split('/') : ['default', name]
  return {
    kind: 'Service',
    namespace,
    name: plain,
    labels: {},
    scheduling: {},
    type: 'ClusterIP',
    clusterIP,
    clusterIPs: [clusterIP],
    ipFamilies: [],
    ports: [port(80)],
    externalIPs: [],
    loadBalancerSourceRanges: [],
    loadBalancerIngress: [],
    sessionAffinity: 'None',
    sessionAffinityTimeoutSeconds: 10800,
    externalTrafficPolicy: 'Cluster',
    internalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    ...rest,
  }
}

export function port(number: number, rest: Partial<ServicePortSpec> = {}): ServicePortSpec {
  return { name: '', protocol: 'TCP', port: number, nodePort: 0, ...rest }
}

export function slice(
  name: string,
  serviceName: string | undefined,
  endpoints: readonly (string | SliceEndpoint)[],
  rest: Partial<EndpointSlice> = {},
): EndpointSlice {
  const all = endpoints.map((entry) => (typeof entry === 'string' ? endpoint(entry) : entry))
  const isIpv6 = all.some(({ address }) => address.includes(':'))
  return {
    kind: 'EndpointSlice',
    namespace: 'default',
    name,
    labels: {},
    serviceName,
    addressType: isIpv6 ? 'IPv6' : 'IPv4',
    ports: [{ name: '', protocol: 'TCP', port: 8080 }],
    endpoints: all,
    ...rest,
  }
}

type EndpointRest = Partial<Omit<SliceEndpoint, 'conditions'>> & Partial<SliceEndpoint['conditions']>

export function endpoint(address: string, rest: EndpointRest = {}): SliceEndpoint {
  const { ready = true, serving = true, terminating = false, ...fields } = rest
  return {
    address,
    nodeName: undefined,
    conditions: { ready, serving, terminating },
    zoneHints: [],
    nodeHints: [],
    ...fields,
  }
}

export function node(
  name: string,
  facts: { readonly zone?: string; readonly ips?: readonly string[]; readonly podCIDRs?: readonly string[] },
): NodeObject {
  const labels = facts.zone === undefined ? {} : { 'topology.kubernetes.io/zone': facts.zone }
  const addresses = (facts.ips ?? []).map((address) => ({ type: 'InternalIP', address }))
  const { podCIDRs = [] } = facts
  return { kind: 'Node', namespace: '', name, labels, addresses, podCIDRs, taintKeys: [], deleted: false }
}

export function set(object: KubernetesObject): ObjectEvent {
  return { type: 'set', object }
}

export function remove(kind: KubernetesObject['kind'], name: string): ObjectEvent {
  const [namespace = 'default', plain = name] = name.includes('/') ? name.split('/') : ['default', name]
  return { type: 'delete', kind, key: { namespace, name: plain } }
}

export const synced: ObjectEvent = { type: 'synced' }
