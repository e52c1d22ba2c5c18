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
export interface Owners {
  readonly byFrontend: ReadonlyMap<string, Owner>
  /** Frontends with an address that other Services own, and whose number is that of a node port in `byFrontend`. */
  readonly ofOthers: ReadonlySet<string>
}

/** Service ports that are read before other work of the agent gets its turn: about 1 ms. */
const portsAtOnce = 500
const noBackends: ConntrackFrontend['backends'] = []

/** The owner of each frontend of a family, or of those that `service` (`namespace/name`) owns, as the engine decided (docs/adr/0007). */
export async function ownersOf(
  { clock }: Pick<Inspected, 'clock'>,
  view: Pick<PipelineView, 'services' | 'ownerOf'>,
  service: string | undefined,
): Promise<Owners> {
  const { services } = view
  const owners = new Map<string, Owner>()
  const ofOthers = new Set<string>()
  let count = 0
  const wanted = service === undefined ? services.servicePorts() : services.servicePortsOf(service)
  for (const port of wanted) {
    if (++count % portsAtOnce === 0) await clock.pause()
    for (const known of ownFrontends(port, view)) {
      const address = addressOf(known)
      const frontend = { protocol: known.protocol, address, port: known.port, backends: noBackends }
      owners.set(keyOfFrontend(known), { port, known, frontend })
    }
  }
  const found = { byFrontend: owners, ofOthers }
  if (service === undefined || owners.size === 0) return found
  for (const port of services.servicePorts()) {
    if (++count % portsAtOnce === 0) await clock.pause()
    for (const known of ownFrontends(port, view)) {
      const key = keyOfFrontend(known)
      if (!owners.has(key) && owners.has(nodePortKeyOf(known))) ofOthers.add(key)
    }
  }
  return found
}

function ownFrontends(port: ServicePort, view: Pick<PipelineView, 'ownerOf'>): readonly Frontend[] {
  return frontendsOf(port).filter((frontend) => view.ownerOf(frontend) === port.key)
}

/** Whether the service port owns the frontend. */
export function owns(owners: Owners, port: ServicePort['key'], frontend: Frontend): boolean {
  return portThatOwns(owners, frontend)?.key === port
}

/** The service port that owns the frontend; undefined: none of `owners` does. */
export function portThatOwns(owners: Owners, frontend: Frontend): ServicePort | undefined {
  return owners.byFrontend.get(keyOfFrontend(frontend))?.port
}

type Destination = Pick<ConntrackFlow, 'protocol' | 'destination' | 'destinationPort'>

/** The owner of the frontend that a connection goes to. NB: a node port matches on every address that is no frontend with its number. */
export function ownerOf({ byFrontend, ofOthers }: Owners, flow: Destination): Owner | undefined {
  const key = keyOf(flow, flow.destination)
  return byFrontend.get(key) ?? (ofOthers.has(key) ? undefined : byFrontend.get(keyOf(flow, undefined)))
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

/** The key of the node port with the frontend's number. */
function nodePortKeyOf({ protocol, port }: Frontend): string {
  return keyOf({ protocol, destinationPort: port }, undefined)
}

function keyOfFrontend(frontend: Frontend): string {
  return keyOf({ protocol: frontend.protocol, destinationPort: frontend.port }, addressOf(frontend))
}
