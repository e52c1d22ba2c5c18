import { formatEndpoint, type IpAddress, type IpFamily } from '../../address.js'
import {
  describeRelayListener,
  type Listener,
  type Ports,
  type Routes,
  wildcardAddress,
} from '../../kernel/index.js'
import { type DesiredRoute, takesNewClients } from '../../layers/relay/index.js'
import { missingVips } from '../../layers/vips/index.js'

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
  const listeners = frontends.flatMap(({ listeners: ofFrontend, isOnAllAddresses }) =>
    // One that only keeps the flows it has is no socket that any sender can reach.
    ofFrontend.filter(takesNewClients).map((listener) => ({
      place: describeRelayListener(listener),
      // A socket on all addresses, or one for each: relay-table.ts chooses.
      instead: isOnAllAddresses
        ? describeRelayListener({ ...listener, address: wildcardAddress[family] })
        : undefined,
      listener,
    })),
  )
  if (listeners.length === 0) return []
  const watched = new Map(
    listeners.map(({ listener: { protocol, port } }) => [`${protocol} ${port}`, { protocol, port }]),
  )
  const missing = async (among: typeof listeners): Promise<typeof listeners> => {
    const own = ownPlaces(family, await ports.find(family, [...watched.values()]))
    return among.filter(({ place, instead }) => !own.has(place) && !own.has(instead ?? place))
  }
  let absent = await missing(listeners)
  // NB: the kernel may pass over a UDP socket, if other sockets of its port end during the listing (udp_dump()). Flows are such sockets.
  for (let reading = 1; reading < readings && absent.length > 0; reading++) absent = await missing(absent)
  return absent.map(({ place }) => `listener ${place} is missing`)
}

/** A listener is missing if so many listings do not have it. */
const readings = 3

/** By describeRelayListener(). */
function ownPlaces(family: IpFamily, sockets: readonly Listener[]): ReadonlySet<string> {
  const own = sockets.filter(({ isOwn }) => isOwn)
  return new Set(
    own.map(
      ({ protocol, address = wildcardAddress[family], port }) =>
        `${protocol} ${formatEndpoint(address, port)}`,
    ),
  )
}
