import { formatEndpoint, type IpFamily } from '../../address.js'
import type { Ports } from '../../kernel/index.js'
import { type DesiredListener, type DesiredRoute, isServed } from '../relay/index.js'

/** The listeners of a route that this process does not have, a sentence each. It asks for the sockets of these ports. Throws KernelError. */
export async function differences(
  { frontends }: DesiredRoute,
  family: IpFamily,
  ports: Pick<Ports, 'find'>,
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
