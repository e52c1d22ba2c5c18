import { familyOf } from '../../address.js'
import type { AddressVirtualServerKey, RealServer, VirtualServerSettings } from '../../kernel/index.js'
import type { Backend, Route } from '../../routing/index.js'
import type { SchedulingSettings } from './scheduling.js'
import { realServersFor, virtualServerSettings } from './server-settings.js'

/** A virtual server as one route wants it. */
export interface DesiredVirtualServer {
  readonly key: AddressVirtualServerKey
  readonly settings: VirtualServerSettings
  readonly realServers: readonly RealServer[]
  /** Its address has to be local to this node. */
  readonly bindAddress: boolean
}

const protocols = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const

/** The virtual servers of a route: one for its cluster IP. Without backends it has no real servers, and refuses. */
export function compileRoute(route: Route, settings: SchedulingSettings): readonly DesiredVirtualServer[] {
  const family = familyOf(route.clusterIP)
  return [
    {
      key: { family, protocol: protocols[route.protocol], address: route.clusterIP, port: route.port },
      settings: virtualServerSettings(route, settings),
      realServers: realServersFor(route, backendsOf(route)),
      bindAddress: true,
    },
  ]
}

/** kube-proxy's ipvs mode falls back to the cluster's endpoints where the Service has them for outside traffic (§3.4). */
function backendsOf({ isInternalLocal, localBackends, clusterBackends }: Route): readonly Backend[] {
  return isInternalLocal && localBackends.length > 0 ? localBackends : clusterBackends
}
