import type { IpFamily } from '../address.js'
import type { Log } from '../log.js'
import type { ServicePortKey } from '../model/index.js'
import type { Route } from '../routing/index.js'
import { logFamily } from './sync-report.js'

/** One line for each service port that changed: kube-proxy's V(4). `decided` undefined: it is gone. */
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
