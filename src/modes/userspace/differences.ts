import { formatEndpoint, type IpAddress, type IpFamily } from '../../address.js'
import type { Ports, Routes } from '../../kernel/index.js'
import { type DesiredListener, type DesiredRoute, isServed } from '../relay/index.js'
import { missingVips } from '../vips/index.js'

interface ReadKernel {
  readonly ports: Pick<Ports, 'find'>
  readonly routes: Pick<Routes, 'dumpLocalRoutes'>
}

/**
 * The listeners of a route that this process does not have, and the routes of its VIPs that the kernel lacks, a sentence each. It asks for
 * the sockets of these ports, and for the local host routes. Throws KernelError.
 */
export async function differences(
  desired: { readonly relayed: DesiredRoute; readonly vips: readonly IpAddress[] },
  family: IpFamily,
  { ports, routes }: ReadKernel,
): Promise<readonly string[]> {
  return [
    ...(await missingListeners(desired.relayed, family, ports)),
    ...(await missingVips(desired.vips, family, routes)),
  ]
}

async function missingListeners(
  { frontends }: DesiredRoute,
  family: IpFamily,
  ports: ReadKernel['ports'],
): Promise<readonly string[]> {
  const listeners = frontends.flatMap((frontend) => frontend.listeners).filter(takesNewClients)
  if (listeners.length === 0) return []
  const watched = new Map(listeners.map(({ protocol, port }) => [`${protocol} ${port}`, { protocol, port }]))
  const sockets = await ports.find(family, [...watched.values()])
  const own = new Set(
    sockets.map(({ isOwn, protocol, address, port }) =>
      isOwn && address !== undefined ? `${protocol} ${formatEndpoint(address, port)}` : '',
    ),
  )
  return listeners
    .map(({ protocol, address, port }) => `${protocol} ${formatEndpoint(address, port)}`)
    .filter((listener) => !own.has(listener))
    .map((listener) => `listener ${listener} is missing`)
}

/** A listener that only keeps the flows it has is no socket that any sender can reach. */
function takesNewClients({ near, far }: DesiredListener): boolean {
  return isServed(near) || isServed(far)
}
