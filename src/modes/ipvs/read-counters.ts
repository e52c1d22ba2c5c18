// The statistics of virtual servers and real servers, as `ipvsadm --stats` shows them.
import { formatEndpoint, type IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import {
  addCounters,
  countAt,
  type CounterReading,
  type PortCounters,
  type TrafficCounters,
} from '../../engine/index.js'
import { CountersCursor, type Ipvs, RealServerCursor, VirtualServerCursor } from '../../kernel/index.js'
import { addressOf, describeFrontend, frontendsOf, type Route } from '../../routing/index.js'
import type { DesiredVirtualServer } from '../../layers/ipvs/index.js'
import { serviceText } from './describe.js'

/** Virtual servers that are read before other work of the agent gets its turn: about 1 ms. */
const serversAtOnce = 500

/**
 * Reads the whole table of the family once. `serversOf`: the virtual servers that a route owns. Throws KernelError.
 */
export async function readCounters(
  family: IpFamily,
  { ipvs, clock }: { readonly ipvs: Pick<Ipvs, 'dump'>; readonly clock: Pick<Clock, 'pause'> },
  serversOf: (decided: Route) => readonly DesiredVirtualServer[],
): Promise<CounterReading> {
  const dump = await ipvs.dump(family, { counters: true })
  const virtualServers = new VirtualServerCursor(dump.virtualServers)
  const places = new Map<string, number>()
  for (let index = 0; index < virtualServers.length; index++) {
    if (index % serversAtOnce === serversAtOnce - 1) await clock.pause()
    places.set(serviceText(virtualServers.key(index)), index)
  }
  const table: Table = {
    places,
    virtualServers,
    realServers: new RealServerCursor(dump.realServers),
    ofVirtualServers: new CountersCursor(dump.virtualServerCounters ?? nothing),
    ofRealServers: new CountersCursor(dump.realServerCounters ?? nothing),
  }
  return (decided) => countersOf(decided, serversOf(decided), table)
}

const nothing = new Uint8Array(0)

interface Table {
  /** The index of each virtual server, by `serviceText`. */
  readonly places: ReadonlyMap<string, number>
  readonly virtualServers: VirtualServerCursor
  readonly realServers: RealServerCursor
  readonly ofVirtualServers: CountersCursor
  readonly ofRealServers: CountersCursor
}

function countersOf(
  decided: Route,
  servers: readonly DesiredVirtualServer[],
  { places, virtualServers, realServers, ofVirtualServers, ofRealServers }: Table,
): PortCounters {
  let total: TrafficCounters = {}
  const frontends = new Map<string, TrafficCounters>()
  const endpoints = new Map<string, TrafficCounters>()
  for (const { key } of servers) {
    const index = places.get(serviceText(key))
    if (index === undefined) continue
    let counted = statistics(ofVirtualServers, index)
    const first = virtualServers.firstReal(index)
    for (let real = first; real < first + virtualServers.realCount(index); real++) {
      const present = {
        activeConnections: ofRealServers.activeConnections(real),
        inactiveConnections: ofRealServers.inactiveConnections(real),
      }
      counted = addCounters(counted, present)
      const endpoint = formatEndpoint(realServers.address(real), realServers.port(real))
      countAt(endpoints, endpoint, { ...statistics(ofRealServers, real), ...present })
    }
    total = addCounters(total, counted)
    const frontend = 'address' in key ? frontendAt(decided, key) : undefined
    if (frontend !== undefined) countAt(frontends, frontend, counted)
  }
  return {
    total,
    endpoint: ({ address, port }) => endpoints.get(formatEndpoint(address, port)) ?? {},
    frontend: (frontend) => frontends.get(describeFrontend(frontend)) ?? {},
  }
}

/** The frontend of a virtual server. A node port has one virtual server for each address of the node. */
function frontendAt(
  decided: Route,
  { address, port }: { readonly address: string; readonly port: number },
): string | undefined {
  const frontends = frontendsOf(decided).filter((frontend) => frontend.port === port)
  const found =
    frontends.find((frontend) => addressOf(frontend) === address) ??
    frontends.find(({ kind }) => kind === 'node-port')
  return found && describeFrontend(found)
}

function statistics(counters: CountersCursor, index: number): TrafficCounters {
  return {
    connections: counters.connections(index),
    packetsIn: counters.inPackets(index),
    packetsOut: counters.outPackets(index),
    bytesIn: counters.inBytes(index),
    bytesOut: counters.outBytes(index),
  }
}
