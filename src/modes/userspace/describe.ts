// The desired state of a route for people: VIP routes as `ip route` prints them, then each listener with its endpoints.
import { formatCidr, formatEndpoint } from '../../address.js'
import { boundedLines } from '../../engine/index.js'
import { addressesOf, type Frontend, type Route } from '../../routing/index.js'
import { describeRelayListener } from '../../kernel/index.js'
import type { DesiredRoute, RelayRouteSettings } from '../../layers/relay/index.js'
import { describeVipRoute } from '../../layers/vips/index.js'

/**
 * `listen tcp 10.96.0.1:80 near cluster far local`, then the endpoints of policy Cluster, of policy Local, and those that only keep UDP flows;
 * at most as many lines as `boundedLines` allows.
 */
export function describeDesired(
  route: Route,
  desired: DesiredRoute,
  {
    isLost = () => false,
    ...settings
  }: Pick<RelayRouteSettings, 'nodeIP'> & { readonly isLost?: ((frontend: Frontend) => boolean) | undefined },
): readonly string[] {
  const frontends = desired.frontends.filter(({ frontend }) => !isLost(frontend))
  return boundedLines(linesOf(route, { ...desired, frontends }, settings))
}

function* linesOf(
  route: Route,
  { service, frontends }: DesiredRoute,
  { nodeIP }: Pick<RelayRouteSettings, 'nodeIP'>,
): Generator<string> {
  for (const vip of addressesOf(route)) yield describeVipRoute(vip, nodeIP)
  const listeners = frontends.flatMap((frontend) => frontend.listeners)
  for (const listener of listeners) {
    const ranges = listener.hasSourceRanges
      ? ` sources ${service.sourceRanges.map(formatCidr).join(',')}`
      : ''
    yield `listen ${describeRelayListener(listener)} near ${listener.near} far ${listener.far}${ranges}`
  }
  if (listeners.length === 0) return
  if (service.affinitySeconds !== undefined) yield `affinity ${service.affinitySeconds}s`
  for (const { address, port } of service.clusterEndpoints) yield `cluster ${formatEndpoint(address, port)}`
  for (const { address, port } of service.localEndpoints) yield `local ${formatEndpoint(address, port)}`
  const chosen = new Set([...service.clusterEndpoints, ...service.localEndpoints])
  for (const endpoint of service.flowEndpoints)
    if (!chosen.has(endpoint)) yield `flows ${formatEndpoint(endpoint.address, endpoint.port)}`
}
