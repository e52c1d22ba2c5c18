// The settings of virtual servers and real servers, which are the same for all of their addresses.
import type { SchedulerFlag } from '../../../config/index.js'
import {
  noRealServers,
  RealServerList,
  type RealServerSettings,
  VirtualServerFlag,
  type VirtualServerSettings,
} from '../../../kernel/index.js'
import type { Backend, Route } from '../../../routing/index.js'
import { schedulerOf, type SchedulingSettings, weightsOf } from './scheduling.js'

/** kube-proxy's settings; the Service chooses the weight. */
const realServerSettings: RealServerSettings = {
  weight: 1,
  forwarding: 'masquerade',
  upperThreshold: 0,
  lowerThreshold: 0,
}

/** IP_VS_SVC_F_SCHED_SH_*, IP_VS_SVC_F_SCHED_MH_* of linux/ip_vs.h. */
const flagBits: Readonly<Record<SchedulerFlag, number>> = {
  'sh-fallback': VirtualServerFlag.scheduler1,
  'sh-port': VirtualServerFlag.scheduler2,
  'mh-fallback': VirtualServerFlag.scheduler1,
  'mh-port': VirtualServerFlag.scheduler2,
}

/** The settings of every virtual server of the route. */
export function virtualServerSettings(route: Route, settings: SchedulingSettings): VirtualServerSettings {
  const { family, affinitySeconds } = route
  const { scheduler, schedulerFlags } = schedulerOf(route, settings)
  const persistent = affinitySeconds > 0 ? VirtualServerFlag.persistent : 0
  return {
    scheduler,
    flags: schedulerFlags.reduce((bits, flag) => bits | flagBits[flag], persistent),
    timeoutSeconds: affinitySeconds,
    netmaskLength: family === 'ipv4' ? 32 : 128,
  }
}

/** With sh-fallback, a client whose server has weight 0 gets another one. */
const byClientAddress = { scheduler: 'sh', flags: VirtualServerFlag.scheduler1, timeoutSeconds: 0 } as const

/**
 * The settings of virtual servers that are found by mark. With persistence the kernel would send connections to the client's
 * destination port, not to the real server's (ip_vs_sched_persist() of ip_vs_core.c). So session affinity is by the hash of the
 * client's address instead, without a time limit.
 */
export function markedServerSettings(route: Route, settings: SchedulingSettings): VirtualServerSettings {
  const own = virtualServerSettings(route, settings)
  return route.affinitySeconds === 0 ? own : { ...own, ...byClientAddress }
}

/** The real servers for backends of the route. */
export function realServersFor(route: Route, backends: readonly Backend[]): RealServerList {
  if (backends.length === 0) return noRealServers
  const weights = weightsOf(route)
  if (weights.size === 0) return RealServerList.withSettings(backends, realServerSettings)
  const weighed = backends.map((key) => {
    const weight = weights.get(route.backendNodes.get(key.address) ?? '') ?? 1
    return { key, settings: { ...realServerSettings, weight } }
  })
  return RealServerList.of(weighed)
}
