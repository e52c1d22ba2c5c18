import { type IpFamily, parseIpAddress } from '../../address.js'
import { BugError, isNotFound } from '../../errors.js'
import { type Routes, viaductRouteProtocol } from '../../kernel/index.js'
import { userspaceRouteMetric as metric } from '../../layers/vips/index.js'

/** Addresses for documentation (RFC 5737, RFC 3849), which no Service has. */
const probeAddresses = { ipv4: '198.51.100.0', ipv6: '2001:db8::' } as const

/** Checks that this process may change routes, by the removal of a route that does not exist. Throws KernelError. */
export async function probeRoutes(routes: Routes, family: IpFamily): Promise<void> {
  const address = parseIpAddress(probeAddresses[family])
  if (address === undefined) throw new BugError('the probe address does not parse')
  const route = { address, interfaceIndex: 1, protocol: viaductRouteProtocol, metric }
  const { failures } = await routes.apply([{ op: 'remove-route', route }])
  for (const { error } of failures) if (!isNotFound(error)) throw error
}
