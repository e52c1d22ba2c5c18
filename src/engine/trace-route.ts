import type { IpFamily } from '../address.js'
import type { Log } from '../log.js'
import type { ServicePortKey } from '../model/index.js'
import type { Route } from '../routing/index.js'
import { logFamily } from './sync-report.js'

/** Writes one line for each changed service port, as kube-proxy does at V(4). `decided` undefined: the service port was removed. */
export function traceRoute(
  log: Log,
  family: IpFamily,
  key: ServicePortKey,
  decided: Pick<Route, 'clusterBackends' | 'localBackends' | 'hasEndpoints'> | undefined,
): void {
  if (!log.writes('trace')) return
  const head = { ipFamily: logFamily(family), service: key }
  if (decided === undefined) {
    log.trace('Service port is gone', head)
    return
  }
  const { clusterBackends, localBackends, hasEndpoints } = decided
  log.trace('Service port compiled', {
    ...head,
    clusterEndpoints: clusterBackends.length,
    localEndpoints: localBackends.length,
    refused: !hasEndpoints,
  })
}
