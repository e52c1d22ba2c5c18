// The kinds that are listed and watched, with kube-proxy's selectors (kubernetes, cmd/kube-proxy/app/server.go).
import type { ExpectedType } from '../../api/index.js'
import type { KubernetesObject } from '../objects.js'
import { readEndpointSlice, serviceNameLabel } from '../readers/endpoint-slice.js'
import { readNode } from '../readers/node.js'
import type { ObjectReader } from '../readers/read-object.js'
import { readService } from '../readers/service.js'
import { readServiceCidr } from '../readers/service-cidr.js'
import { endpointSliceMessage, nodeMessage, serviceCidrMessage, serviceMessage } from './messages.js'

export interface Resource extends ExpectedType {
  readonly kind: KubernetesObject['kind']
  /** The name of its link in reports. Absent: the kind. */
  readonly linkName?: string
  readonly path: string
  /** Parameters of the query. NB: an object that no longer matches comes as DELETED. */
  readonly selectors: Readonly<Record<string, string>>
  /** Selects the objects that are listed first after the place in a watch is lost, before the delay of the whole list. Absent: none. */
  readonly first?: Resource['selectors']
  readonly read: ObjectReader
}

/**
 * The Services without whose backends other programs stop: the API server's own, and those of DNS in kubeadm and most distributions, RKE2
 * and OpenShift. One name may select Services of several namespaces, which is no harm.
 */
const firstServices = ['kubernetes', 'kube-dns', 'rke2-coredns-rke2-coredns', 'dns-default', 'coredns']
const slicesSelector = '!service.kubernetes.io/headless'

const nodeResource = {
  kind: 'Node',
  apiVersion: 'v1',
  path: '/api/v1/nodes',
  message: nodeMessage,
  read: readNode,
} as const

/** Services, EndpointSlices and the one Node of this name. */
export function resourcesOf(nodeName: string): readonly Resource[] {
  return [
    {
      kind: 'Service',
      apiVersion: 'v1',
      path: '/api/v1/services',
      selectors: {
        labelSelector: '!service.kubernetes.io/service-proxy-name',
        fieldSelector: 'spec.clusterIP!=None',
      },
      message: serviceMessage,
      read: readService,
    },
    {
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      path: '/apis/discovery.k8s.io/v1/endpointslices',
      selectors: { labelSelector: slicesSelector },
      first: { labelSelector: `${slicesSelector},${serviceNameLabel} in (${firstServices.join(',')})` },
      message: endpointSliceMessage,
      read: readEndpointSlice,
    },
    { ...nodeResource, selectors: { fieldSelector: `metadata.name=${nodeName}` } },
  ]
}

/** All Nodes but the one of this name. */
export function resourceOfOtherNodes(nodeName: string): Resource {
  return {
    ...nodeResource,
    linkName: 'other Nodes',
    selectors: { fieldSelector: `metadata.name!=${nodeName}` },
  }
}

/** The name of the resource's link in reports. */
export function linkNameOf({ linkName, kind }: Pick<Resource, 'linkName' | 'kind'>): string {
  return linkName ?? kind
}

/** ServiceCIDRs in the version of Kubernetes 1.33, and in that of 1.31 and 1.32. */
export const serviceCidrResources = [serviceCidrsOf('v1'), serviceCidrsOf('v1beta1')] as const

function serviceCidrsOf(version: string): Resource {
  return {
    kind: 'ServiceCIDR',
    apiVersion: `networking.k8s.io/${version}`,
    path: `/apis/networking.k8s.io/${version}/servicecidrs`,
    selectors: {},
    message: serviceCidrMessage,
    read: readServiceCidr,
  }
}
