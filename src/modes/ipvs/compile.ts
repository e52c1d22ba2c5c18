import { familyOf } from '../../address.js'
import { type AddressVirtualServerKey, type RealServer, VirtualServerFlag } from '../../kernel/index.js'
import type { RealServerSettings, VirtualServerSettings } from '../../kernel/index.js'
import type { Backend, Route } from '../../routing/index.js'

export interface IpvsModeSettings {
  /** Kernel name of the scheduler: rr, lc, sh, mh, ... */
  readonly scheduler: string
}

/** A virtual server as one route wants it. */
export interface DesiredVirtualServer {
  readonly key: AddressVirtualServerKey
  readonly settings: VirtualServerSettings
  readonly realServers: readonly RealServer[]
  /** Its address has to be local to this node. */
  readonly bindAddress: boolean
}

/** Real servers differ in nothing but their address (kube-proxy: weight 1, masquerade, no thresholds). */
const realServerSettings: RealServerSettings = {
  weight: 1,
  forwarding: 'masquerade',
  upperThreshold: 0,
  lowerThreshold: 0,
}

const protocols = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const

/** The virtual servers of a route: one for its cluster IP. Without backends it has no real servers, and refuses. */
export function compileRoute(route: Route, settings: IpvsModeSettings): readonly DesiredVirtualServer[] {
  const family = familyOf(route.clusterIP)
  const persistent = route.affinitySeconds > 0 ? VirtualServerFlag.persistent : 0
  // kube-proxy hashes the source port too with Maglev: mh-port.
  const hashed = settings.scheduler === 'mh' ? VirtualServerFlag.scheduler2 : 0
  return [
    {
      key: { family, protocol: protocols[route.protocol], address: route.clusterIP, port: route.port },
      settings: {
        scheduler: settings.scheduler,
        flags: persistent | hashed,
        timeoutSeconds: route.affinitySeconds,
        netmaskLength: family === 'ipv4' ? 32 : 128,
      },
      realServers: backendsOf(route).map((key) => ({ key, settings: realServerSettings })),
      bindAddress: true,
    },
  ]
}

/** kube-proxy's ipvs mode falls back to the cluster's endpoints where the Service has them for outside traffic (§3.4). */
function backendsOf({ isInternalLocal, localBackends, clusterBackends }: Route): readonly Backend[] {
  return isInternalLocal && localBackends.length > 0 ? localBackends : clusterBackends
}
