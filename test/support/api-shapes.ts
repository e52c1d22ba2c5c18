// The Go types of the Kubernetes API as tables, with the facts that the API server's encodings depend on. In protobuf every field that
// is not a pointer is written. In JSON `omitempty` leaves zeros out. Independent of the reader's tables in src/.

/**
 * string, int32, int64, bool: not a pointer; with `?` a pointer; with `!` not a pointer, and without `omitempty` in JSON. struct: not a
 * pointer. list!: null in JSON if it is empty.
 */
export type Type =
  | `${'string' | 'int32' | 'int64' | 'bool'}${'' | '?' | '!'}`
  | 'struct'
  | 'struct?'
  | 'strings'
  | 'strings!'
  | 'list'
  | 'list!'
  | 'map'
  | 'time?'

export type Shape = Readonly<Record<string, readonly [number: number, type: Type, inner?: Shape]>>

export type Document = Readonly<Record<string, unknown>>

const metadata: Shape = {
  name: [1, 'string'],
  generateName: [2, 'string'],
  namespace: [3, 'string'],
  uid: [5, 'string'],
  resourceVersion: [6, 'string'],
  generation: [7, 'int64'],
  creationTimestamp: [8, 'time?'],
  deletionTimestamp: [9, 'time?'],
  deletionGracePeriodSeconds: [10, 'int64?'],
  labels: [11, 'map'],
  annotations: [12, 'map'],
  finalizers: [14, 'strings'],
  managedFields: [
    17,
    'list',
    {
      manager: [1, 'string'],
      operation: [2, 'string'],
      apiVersion: [3, 'string'],
      time: [4, 'time?'],
      fieldsType: [6, 'string'],
    },
  ],
}

const named: Shape = { name: [1, 'string!'] }

/** The types by kind. */
export const shapes = {
  Service: {
    metadata: [1, 'struct', metadata],
    spec: [
      2,
      'struct',
      {
        ports: [
          1,
          'list',
          {
            name: [1, 'string'],
            protocol: [2, 'string'],
            port: [3, 'int32!'],
            targetPort: [4, 'struct', { type: [1, 'int64'], intVal: [2, 'int32'], strVal: [3, 'string'] }],
            nodePort: [5, 'int32'],
            appProtocol: [6, 'string?'],
          },
        ],
        selector: [2, 'map'],
        clusterIP: [3, 'string'],
        type: [4, 'string'],
        externalIPs: [5, 'strings'],
        sessionAffinity: [7, 'string'],
        loadBalancerIP: [8, 'string'],
        loadBalancerSourceRanges: [9, 'strings'],
        externalName: [10, 'string'],
        externalTrafficPolicy: [11, 'string'],
        healthCheckNodePort: [12, 'int32'],
        publishNotReadyAddresses: [13, 'bool'],
        sessionAffinityConfig: [
          14,
          'struct?',
          { clientIP: [1, 'struct?', { timeoutSeconds: [1, 'int32?'] }] },
        ],
        ipFamilyPolicy: [17, 'string?'],
        clusterIPs: [18, 'strings'],
        ipFamilies: [19, 'strings'],
        allocateLoadBalancerNodePorts: [20, 'bool?'],
        internalTrafficPolicy: [22, 'string?'],
      },
    ],
    status: [
      3,
      'struct',
      {
        loadBalancer: [
          1,
          'struct',
          { ingress: [1, 'list', { ip: [1, 'string'], hostname: [2, 'string'], ipMode: [3, 'string?'] }] },
        ],
      },
    ],
  },
  EndpointSlice: {
    metadata: [1, 'struct', metadata],
    endpoints: [
      2,
      'list!',
      {
        addresses: [1, 'strings!'],
        conditions: [2, 'struct', { ready: [1, 'bool?'], serving: [2, 'bool?'], terminating: [3, 'bool?'] }],
        hostname: [3, 'string?'],
        targetRef: [4, 'struct?', { kind: [1, 'string'], namespace: [2, 'string'], name: [3, 'string'] }],
        deprecatedTopology: [5, 'map'],
        nodeName: [6, 'string?'],
        zone: [7, 'string?'],
        hints: [8, 'struct?', { forZones: [1, 'list', named], forNodes: [2, 'list', named] }],
      },
    ],
    ports: [
      3,
      'list!',
      {
        name: [1, 'string?'],
        protocol: [2, 'string?'],
        port: [3, 'int32?'],
        appProtocol: [4, 'string?'],
      },
    ],
    addressType: [4, 'string!'],
  },
  Node: {
    metadata: [1, 'struct', metadata],
    spec: [
      2,
      'struct',
      {
        podCIDR: [1, 'string'],
        providerID: [3, 'string'],
        unschedulable: [4, 'bool'],
        taints: [
          5,
          'list',
          { key: [1, 'string!'], value: [2, 'string'], effect: [3, 'string!'], timeAdded: [4, 'time?'] },
        ],
        podCIDRs: [7, 'strings'],
      },
    ],
    status: [
      3,
      'struct',
      {
        phase: [3, 'string'],
        addresses: [5, 'list', { type: [1, 'string!'], address: [2, 'string!'] }],
      },
    ],
  },
  ServiceCIDR: {
    metadata: [1, 'struct', metadata],
    spec: [2, 'struct', { cidrs: [1, 'strings'] }],
  },
  Status: {
    metadata: [1, 'struct', { resourceVersion: [2, 'string'] }],
    status: [2, 'string'],
    message: [3, 'string'],
    reason: [4, 'string'],
    details: [
      5,
      'struct?',
      {
        name: [1, 'string'],
        kind: [3, 'string'],
        causes: [4, 'list', { reason: [1, 'string'], message: [2, 'string'] }],
        retryAfterSeconds: [5, 'int32'],
      },
    ],
    code: [6, 'int32'],
  },
} satisfies Record<string, Shape>

export type Kind = 'Service' | 'EndpointSlice' | 'Node' | 'ServiceCIDR'

export const apiVersions = {
  Service: 'v1',
  EndpointSlice: 'discovery.k8s.io/v1',
  Node: 'v1',
  ServiceCIDR: 'networking.k8s.io/v1',
  Status: 'v1',
} as const

export function isDocument(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function documentOf(value: unknown): Document {
  return isDocument(value) ? value : {}
}
