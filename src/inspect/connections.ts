// The present connections of Services: those of the mode, or of conntrack.
import { formatEndpoint, type IpFamily } from '../address.js'
import type { FlowSource, ServiceFlow } from '../engine/index.js'
import type { ConntrackFlow } from '../kernel/index.js'
import type { ServicePort } from '../model/index.js'
import { ownedFlows, ownerOf, type Owners, ownersOf } from './frontend-owners.js'
import type { Inspected } from './inspected.js'
import type { PortHead } from './rows.js'
import { checkServiceName, headOf } from './services.js'

export interface ConnectionRow extends PortHead {
  /** `10.244.1.10:43210`. */
  readonly client: string
  /** The destination that the client chose: `10.96.0.10:80`. */
  readonly frontend: string
  /** `10.244.2.5:8080`. Absent: the kernel translates no destination. */
  readonly endpoint?: string
  /** In the spelling of conntrack(8) or ipvsadm(8). Absent: the protocol is not TCP. */
  readonly state?: string
  /** The kernel forgets the connection after so many seconds without a packet. Absent: in userspace mode it does not. */
  readonly timeoutSeconds?: number
}

export interface Connections {
  /** The first ones. */
  readonly connections: readonly ConnectionRow[]
  /** Number of all. */
  readonly total: number
}

/** Connections of one reply. */
const shownConnections = 1000

/**
 * The connections of all Services, or of `service` (`namespace/name`). undefined: that Service is not known. Throws ConfigError for a
 * `service` of another form, and KernelError if the kernel does not list connections. Once `signal` aborts, the connections of the mode
 * are read no further.
 */
export async function connections(
  inspected: Inspected,
  service: string | undefined,
  signal: AbortSignal,
): Promise<Connections | undefined> {
  if (service !== undefined) checkServiceName(service)
  const found: ConnectionRow[] = []
  let total = 0
  let isKnown = service === undefined
  for (const view of inspected.synchronizer.views) {
    const { family } = view.health
    isKnown ||= service !== undefined && view.services.servicePortsOf(service).length > 0
    const owners = await ownersOf(inspected, view, service)
    if (owners.byFrontend.size === 0) continue
    const limit = shownConnections - found.length
    const listed =
      view.readFlows === undefined
        ? await ofConntrack(inspected, family, owners, limit)
        : await ofMode(await view.readFlows(), owners, { clock: inspected.clock, limit, signal })
    total += listed.total
    for (const row of listed.connections) found.push(row)
  }
  return isKnown ? { connections: found, total } : undefined
}

async function ofConntrack(
  inspected: Inspected,
  family: IpFamily,
  owners: Owners,
  limit: number,
): Promise<Connections> {
  const listed = await inspected.flows(
    family,
    [...owners.byFrontend.values()].map(({ frontend }) => frontend),
    await inspected.machineAddresses(family),
    limit,
  )
  const rows = listed.flows.flatMap((flow) => {
    const owner = ownerOf(owners, flow)
    return owner === undefined ? [] : [conntrackRow(flow, owner.port)]
  })
  return { connections: rows, total: listed.total }
}

async function ofMode(
  flows: FlowSource,
  owners: Owners,
  {
    clock,
    limit,
    signal,
  }: { readonly clock: Inspected['clock']; readonly limit: number; readonly signal: AbortSignal },
): Promise<Connections> {
  const rows: ConnectionRow[] = []
  let total = 0
  for await (const { flow, owner } of ownedFlows(untilAborted(flows, signal), owners, clock)) {
    total++
    if (rows.length < limit) rows.push(flowRow(flow, owner.port))
  }
  return { connections: rows, total }
}

async function* untilAborted(flows: FlowSource, signal: AbortSignal): AsyncGenerator<ServiceFlow> {
  for await (const flow of flows) {
    if (signal.aborted) return
    yield flow
  }
}

function conntrackRow(flow: ConntrackFlow, port: ServicePort): ConnectionRow {
  const isTranslated = flow.replySource !== flow.destination || flow.replySourcePort !== flow.destinationPort
  return {
    ...rowHead(flow, port),
    ...(isTranslated ? { endpoint: formatEndpoint(flow.replySource, flow.replySourcePort) } : {}),
    ...(flow.tcpState === undefined ? {} : { state: flow.tcpState }),
    timeoutSeconds: flow.timeoutSeconds,
  }
}

function flowRow(flow: ServiceFlow, port: ServicePort): ConnectionRow {
  const { endpoint, state, timeoutSeconds } = flow
  return {
    ...rowHead(flow, port),
    endpoint: formatEndpoint(endpoint.address, endpoint.port),
    ...(state === undefined ? {} : { state }),
    ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
  }
}

function rowHead(
  flow: Pick<ServiceFlow, 'source' | 'sourcePort' | 'destination' | 'destinationPort'>,
  port: ServicePort,
): PortHead & Pick<ConnectionRow, 'client' | 'frontend'> {
  return {
    ...headOf(port),
    client: formatEndpoint(flow.source, flow.sourcePort),
    frontend: formatEndpoint(flow.destination, flow.destinationPort),
  }
}
