// What virtual servers and real servers are set to, whatever address they are for.
import { familyOf } from '../../address.js'
import {
  type RealServer,
  type RealServerSettings,
  VirtualServerFlag,
  type VirtualServerSettings,
} from '../../kernel/index.js'
import type { Backend, Route } from '../../routing/index.js'

/** How connections are spread where a Service does not say. */
export interface SchedulingSettings {
  /** Kernel name of the scheduler: rr, lc, sh, mh, ... */
  readonly scheduler: string
}

/** kube-proxy's: weight 1, masquerade, no thresholds. */
const realServerSettings: RealServerSettings = {
  weight: 1,
  forwarding: 'masquerade',
  upperThreshold: 0,
  lowerThreshold: 0,
}

/** The settings of every virtual server of the route. */
export function virtualServerSettings(
  { clusterIP, affinitySeconds }: Route,
  { scheduler }: SchedulingSettings,
): VirtualServerSettings {
  const persistent = affinitySeconds > 0 ? VirtualServerFlag.persistent : 0
  // kube-proxy hashes the source port too with Maglev: mh-port.
  const hashed = scheduler === 'mh' ? VirtualServerFlag.scheduler2 : 0
  return {
    scheduler,
    flags: persistent | hashed,
    timeoutSeconds: affinitySeconds,
    netmaskLength: familyOf(clusterIP) === 'ipv4' ? 32 : 128,
  }
}

/** The real servers for backends of the route, in their order. */
export function realServersFor(_route: Route, backends: readonly Backend[]): readonly RealServer[] {
  return backends.map((key) => ({ key, settings: realServerSettings }))
}
