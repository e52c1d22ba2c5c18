// Objects of a case as a user would write them: the text of a manifest file.
import { formatCidr } from '../../../src/address.js'
import type { EndpointSlice, KubernetesObject, NodeObject, Service } from '../../../src/source/index.js'
import type { ServiceCidr } from '../../../src/source/testing.js'

/** A JSON manifest with all of the objects. */
export function manifestText(objects: readonly KubernetesObject[]): string {
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects.map(documentOf) }, null, 1)
}

function documentOf(object: KubernetesObject): object {
  if (object.kind === 'Service') return serviceDocument(object)
  if (object.kind === 'ServiceCIDR') return serviceCidrDocument(object)
  return object.kind === 'Node' ? nodeDocument(object) : sliceDocument(object)
}

function serviceCidrDocument({ name, cidrs }: ServiceCidr): object {
  const spec = { cidrs: cidrs.map(formatCidr) }
  return { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: { name }, spec }
}

function serviceDocument(service: Service): object {
  const { namespace, name, labels, type, clusterIP, clusterIPs, ipFamilies, ports } = service
  const { externalIPs, loadBalancerSourceRanges, sessionAffinity, healthCheckNodePort } = service
  const { externalTrafficPolicy, internalTrafficPolicy } = service
  const timeoutSeconds = service.sessionAffinityTimeoutSeconds
  const { createdSeconds } = service
  const created = createdSeconds && { creationTimestamp: new Date(createdSeconds * 1000).toISOString() }
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name, labels, ...created },
    spec: {
      type,
      clusterIP,
      clusterIPs,
      ipFamilies,
      ports,
      externalIPs,
      loadBalancerSourceRanges,
      sessionAffinity,
      ...(sessionAffinity === 'ClientIP' ? { sessionAffinityConfig: { clientIP: { timeoutSeconds } } } : {}),
      externalTrafficPolicy,
      internalTrafficPolicy,
      healthCheckNodePort,
    },
    status: { loadBalancer: { ingress: service.loadBalancerIngress } },
  }
}

/** A second address of each endpoint, without a server: only the first one counts (F-027). */
const ignoredAddresses: Readonly<Record<EndpointSlice['addressType'], string>> = {
  IPv4: '192.0.2.99',
  IPv6: 'fd00:192:2::99',
  FQDN: 'absent.example',
}

function sliceDocument(slice: EndpointSlice): object {
  const { namespace, name, labels, serviceName, addressType, ports } = slice
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace,
      name,
      labels: serviceName === undefined ? labels : { ...labels, 'kubernetes.io/service-name': serviceName },
    },
    addressType,
    ports,
    endpoints: slice.endpoints.map(({ address, zoneHints, nodeHints, ...endpoint }) => ({
      ...endpoint,
      addresses: [address, ignoredAddresses[addressType]],
      hints: {
        forZones: zoneHints.map((hint) => ({ name: hint })),
        forNodes: nodeHints.map((hint) => ({ name: hint })),
      },
    })),
  }
}

function nodeDocument({ name, labels, podCIDRs, taintKeys, addresses }: NodeObject): object {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels },
    spec: { podCIDRs, taints: taintKeys.map((key) => ({ key, effect: 'NoSchedule' })) },
    status: { addresses },
  }
}
