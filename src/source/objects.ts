// Kubernetes objects reduced to the fields that kube-proxy reads, defaults of the API server filled in. They end at routing/.
import type { Cidr } from '../address.js'

/** The labels that objects keep. Others are dropped. */
export const readLabels = {
  /** On Service: it belongs to another proxy, with any value (F-005). On an EndpointSlice it means nothing (kube-proxy 1.36). */
  otherProxy: 'service.kubernetes.io/service-proxy-name',
  /** On EndpointSlice: the slice belongs to a headless Service, and is ignored (F-006). */
  headless: 'service.kubernetes.io/headless',
  /** On Node. */
  zone: 'topology.kubernetes.io/zone',
} as const

/** Values by `readLabels`. */
export type Labels = Readonly<Partial<Record<(typeof readLabels)[keyof typeof readLabels], string>>>

/** The annotations of Services that are read. All are Viaduct's; docs/flags.md describes them. */
export const schedulingAnnotations = {
  scheduler: 'viaduct.dev/ipvs-scheduler',
  schedulerFlags: 'viaduct.dev/ipvs-scheduler-flags',
  weights: 'viaduct.dev/ipvs-weights',
} as const

/** The texts of these annotations, as written. */
export type SchedulingAnnotations = {
  readonly [K in keyof typeof schedulingAnnotations]?: string | undefined
}

export type ServiceProtocol = 'TCP' | 'UDP' | 'SCTP'

export interface ObjectKey {
  readonly namespace: string
  readonly name: string
}

export interface ServicePortSpec {
  /** Empty for the only, unnamed port. */
  readonly name: string
  readonly protocol: ServiceProtocol
  readonly port: number
  /** 0: none. */
  readonly nodePort: number
}

export interface LoadBalancerIngress {
  readonly ip: string
  readonly ipMode: 'VIP' | 'Proxy'
}

export interface Service extends ObjectKey {
  readonly kind: 'Service'
  readonly labels: Labels
  readonly scheduling: SchedulingAnnotations
  /** Unix seconds of the creation in the cluster; absent: unknown. */
  readonly createdSeconds?: number | undefined
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  /** Empty: none yet; "None": headless. Text as written, not yet canonical. */
  readonly clusterIP: string
  readonly clusterIPs: readonly string[]
  readonly ipFamilies: readonly ('IPv4' | 'IPv6')[]
  readonly ports: readonly ServicePortSpec[]
  readonly externalIPs: readonly string[]
  readonly loadBalancerSourceRanges: readonly string[]
  readonly loadBalancerIngress: readonly LoadBalancerIngress[]
  readonly sessionAffinity: 'None' | 'ClientIP'
  /** Seconds; 10800 unless set. */
  readonly sessionAffinityTimeoutSeconds: number
  readonly externalTrafficPolicy: 'Cluster' | 'Local'
  readonly internalTrafficPolicy: 'Cluster' | 'Local'
  /** 0: none. */
  readonly healthCheckNodePort: number
}

export interface EndpointConditions {
  /** nil in the API means true. */
  readonly ready: boolean
  /** nil in the API means true. */
  readonly serving: boolean
  readonly terminating: boolean
}

export interface SliceEndpoint {
  /** The first one, which alone counts (F-027); text as written. */
  readonly address: string
  readonly nodeName: string | undefined
  readonly conditions: EndpointConditions
  readonly zoneHints: readonly string[]
  readonly nodeHints: readonly string[]
}

export interface SlicePort {
  /** undefined (nil in the API): the port is ignored; the empty string is a valid name. */
  readonly name: string | undefined
  readonly protocol: ServiceProtocol
  /** undefined or 0: ignored. */
  readonly port: number | undefined
}

export interface EndpointSlice extends ObjectKey {
  readonly kind: 'EndpointSlice'
  readonly labels: Labels
  /** Label kubernetes.io/service-name; undefined: the slice is ignored. */
  readonly serviceName: string | undefined
  readonly addressType: 'IPv4' | 'IPv6' | 'FQDN'
  /** Unix milliseconds of the change in the cluster that the slice shows; absent: unknown. */
  readonly lastChangeMs?: number | undefined
  readonly ports: readonly SlicePort[]
  readonly endpoints: readonly SliceEndpoint[]
}

export interface NodeObject extends ObjectKey {
  readonly kind: 'Node'
  readonly labels: Labels
  readonly addresses: readonly { readonly type: string; readonly address: string }[]
  readonly podCIDRs: readonly string[]
  readonly taintKeys: readonly string[]
  readonly deleted: boolean
}

/** Addresses for cluster IPs. */
export interface ServiceCidr extends ObjectKey {
  readonly kind: 'ServiceCIDR'
  /** One network, or one of each family. */
  readonly cidrs: readonly Cidr[]
}

export type KubernetesObject = Service | EndpointSlice | NodeObject | ServiceCidr

/** One change of an object: its new state, or its end. */
export type ObjectChange =
  | { readonly type: 'set'; readonly object: KubernetesObject }
  | { readonly type: 'delete'; readonly kind: KubernetesObject['kind']; readonly key: ObjectKey }

/** One change of an object, or a milestone of the first listing. */
export type ObjectEvent =
  | ObjectChange
  /** All readable objects have been delivered, but some objects cannot be read. `synced` follows when they can. */
  | { readonly type: 'listed' }
  /** All objects have been delivered; ServiceCIDRs only as the event says. Comes once. */
  | { readonly type: 'synced'; readonly withServiceCidrs?: true }
  /**
   * An API server answered over a connection to this address and port. Delivered when the address or port differs from the last one,
   * before the next objects.
   */
  | { readonly type: 'connected'; readonly address: string; readonly port: number }
  /** All ServiceCIDRs that can be read have been delivered. Comes once, from a source that follows them apart. */
  | { readonly type: 'service-cidrs-listed' }

/** `EndpointSlice default/web-x7k2`: equal for all events of one object. The type of a milestone. */
export function objectOf(event: ObjectEvent): string {
  if (event.type === 'set') return `${event.object.kind} ${event.object.namespace}/${event.object.name}`
  return event.type === 'delete' ? `${event.kind} ${event.key.namespace}/${event.key.name}` : event.type
}

/** This node's Node alone, or the Nodes of the cluster. */
export type FollowedNodes = 'own' | 'all'

/** Delivers Kubernetes objects and their changes as events, in order, in batches that were seen together. */
export interface Source {
  /** Resolves when the first listing has been delivered, `synced` or `listed` included. Throws ConfigError when it can never work. */
  start(deliver: (events: readonly ObjectEvent[]) => void): Promise<void>
  /** Chooses the Nodes that are delivered. `synced` and `listed` wait for the first call; later calls have no effect. Absent: no choice. */
  followNodes?(which: FollowedNodes): void
  /** Delivers ServiceCIDRs too. Nothing waits for them. Absent: the source delivers them unasked. */
  followServiceCidrs?(): void
  /** Idempotent; after it resolves nothing more is delivered. */
  stop(): Promise<void>
}
