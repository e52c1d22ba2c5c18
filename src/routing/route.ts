import type { IpAddress } from '../address.js'
import type { Endpoint, ServicePort, ServicePortKey } from '../model/index.js'
import { type NodeView, usableClusterEndpoints, usableLocalEndpoints } from './endpoints.js'

export interface Backend {
  readonly address: IpAddress
  readonly port: number
}

/** One service port with its frontend and its chosen backends: all that a proxy mode needs to know. */
export interface Route {
  readonly key: ServicePortKey
  /** `namespace/name`: how messages name it. */
  readonly service: string
  readonly protocol: ServicePort['protocol']
  readonly clusterIP: IpAddress
  readonly port: number
  /** 0: no session affinity. */
  readonly affinitySeconds: number
  /** In bytewise order of `address:port` (F-031); empty: nobody can take a connection. */
  readonly backends: readonly Backend[]
}

/** Decides which endpoints take the traffic of this service port on this node. */
export function route(port: ServicePort, endpoints: readonly Endpoint[], node: NodeView): Route {
  const chosen = chooseEndpoints(port, endpoints, node)
  return {
    key: port.key,
    service: port.service,
    protocol: port.protocol,
    clusterIP: port.clusterIP,
    port: port.port,
    affinitySeconds: port.affinitySeconds,
    backends: chosen
      .toSorted(compareIds)
      .map((endpoint) => ({ address: endpoint.address, port: endpoint.port })),
  }
}

function chooseEndpoints(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  node: NodeView,
): readonly Endpoint[] {
  if (!port.isInternalLocal) return usableClusterEndpoints(endpoints, node)
  const local = usableLocalEndpoints(endpoints, node)
  // kube-proxy's ipvs mode falls back to the cluster's endpoints where the Service has them for outside traffic (§3.4).
  if (local.length > 0 || !port.isExternallyAccessible) return local
  return usableClusterEndpoints(endpoints, node)
}

function compareIds(a: Endpoint, b: Endpoint): number {
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}
