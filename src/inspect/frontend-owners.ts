// The service port that owns a frontend, to find the Service of a connection.
import type { IpAddress } from '../address.js'
import type { FlowSource, PipelineView, ServiceFlow } from '../engine/index.js'
import type { ConntrackFlow, ConntrackFrontend } from '../kernel/index.js'
import type { ServicePort } from '../model/index.js'
import { addressOf, type Frontend, frontendsOf } from '../routing/index.js'
import type { Inspected } from './inspected.js'

/** A frontend and the service port that owns it. */
export interface Owner {
  readonly port: ServicePort
  readonly known: Frontend
  /** The frontend, as conntrack takes it. */
  readonly frontend: ConntrackFrontend
}

/** The owners of frontends; read it with `ownerOf`. */
export type Owners = ReadonlyMap<string, Owner>

/** Service ports that are read before other work of the agent gets its turn: about 1 ms. */
const portsAtOnce = 500
const noBackends: ConntrackFrontend['backends'] = []

/** The service ports of a family, or those of `service` (`namespace/name`). */
export function portsOf({ services }: PipelineView, service: string | undefined): Iterable<ServicePort> {
  return service === undefined ? services.servicePorts() : services.servicePortsOf(service)
}

/** The service port of each frontend (docs/adr/0007: the first key owns it). */
export async function ownersOf(
  ports: Iterable<ServicePort>,
  clock: Pick<Inspected['clock'], 'pause'>,
): Promise<Owners> {
  const owners = new Map<string, Owner>()
  let count = 0
  for (const port of ports) {
    if (++count % portsAtOnce === 0) await clock.pause()
    for (const known of frontendsOf(port)) {
      const address = addressOf(known)
      const frontend = { protocol: known.protocol, address, port: known.port, backends: noBackends }
      const key = keyOf({ protocol: known.protocol, destinationPort: known.port }, address)
      const first = owners.get(key)
      if (first === undefined || port.key < first.port.key) owners.set(key, { port, known, frontend })
    }
  }
  return owners
}

type Destination = Pick<ConntrackFlow, 'protocol' | 'destination' | 'destinationPort'>

/** The owner of the frontend that a connection goes to. NB: a node port matches on every address. */
export function ownerOf(owners: Owners, flow: Destination): Owner | undefined {
  return owners.get(keyOf(flow, flow.destination)) ?? owners.get(keyOf(flow, undefined))
}

/** Connections that are read before other work of the agent gets its turn: about 1 ms. */
const flowsAtOnce = 500

/** The connections to the frontends, each with its owner. */
export async function* ownedFlows(
  flows: FlowSource,
  owners: Owners,
  clock: Pick<Inspected['clock'], 'pause'>,
): AsyncGenerator<{ readonly flow: ServiceFlow; readonly owner: Owner }> {
  let read = 0
  for await (const flow of flows) {
    if (++read % flowsAtOnce === 0) await clock.pause()
    const owner = ownerOf(owners, flow)
    if (owner !== undefined) yield { flow, owner }
  }
}

function keyOf(
  { protocol, destinationPort }: Pick<Destination, 'protocol' | 'destinationPort'>,
  address: IpAddress | undefined,
): string {
  return `${protocol} ${address ?? ''} ${destinationPort}`
}
