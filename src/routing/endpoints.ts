// The endpoints that may take traffic: readiness, the fallback to terminating ones, and topology hints.
import type { Endpoint } from '../model/index.js'

/** Facts about this node that routing depends on. */
export interface NodeView {
  readonly name: string
  /** Label topology.kubernetes.io/zone; undefined: none. */
  readonly zone: string | undefined
}

/** For traffic policy Cluster (F-032): the ready endpoints that the hints allow. Without a ready endpoint, the serving terminating ones. */
export function usableClusterEndpoints(endpoints: readonly Endpoint[], node: NodeView): readonly Endpoint[] {
  const ready = endpoints.every(isReadyNow) ? endpoints : endpoints.filter(isReadyNow)
  if (ready.length === 0) return endpoints.filter(isServingTerminating)
  const isAllowed = topologyFilter(ready, node)
  return isAllowed === undefined ? ready : ready.filter(isAllowed)
}

/** For traffic policy Local (F-033): the same choice among the endpoints of this node, without hints. */
export function usableLocalEndpoints(endpoints: readonly Endpoint[], node: NodeView): readonly Endpoint[] {
  const local = endpoints.filter(({ nodeName }) => nodeName !== undefined && nodeName === node.name)
  const ready = local.filter(isReadyNow)
  return ready.length > 0 ? ready : local.filter(isServingTerminating)
}

/** The endpoints that keep their UDP flows: the serving ones on any node; all while none serves. */
export function endpointsOfFlows(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const serving = endpoints.filter(({ isServing }) => isServing)
  return serving.length > 0 ? serving : endpoints
}

function isReadyNow({ isReady }: Endpoint): boolean {
  return isReady
}

function isServingTerminating({ isServing, isTerminating }: Endpoint): boolean {
  return isServing && isTerminating
}

/** F-036: hints count only if every ready endpoint has them and one names this node or its zone. undefined: all endpoints are allowed. */
function topologyFilter(
  ready: readonly Endpoint[],
  node: NodeView,
): ((endpoint: Endpoint) => boolean) | undefined {
  const isForNode = ({ nodeHints }: Endpoint): boolean => nodeHints.includes(node.name)
  if (ready.every(({ nodeHints }) => nodeHints.length > 0) && ready.some(isForNode)) return isForNode
  const { zone } = node
  if (zone === undefined) return undefined
  const isForZone = ({ zoneHints }: Endpoint): boolean => zoneHints.includes(zone)
  if (ready.every(({ zoneHints }) => zoneHints.length > 0) && ready.some(isForZone)) return isForZone
  return undefined
}

/** F-034, for a Service that uses local endpoints: whether an endpoint on any node could take traffic. */
export function hasAnyEndpoint(endpoints: readonly Endpoint[]): boolean {
  return endpoints.some((endpoint) => endpoint.isReady || isServingTerminating(endpoint))
}
