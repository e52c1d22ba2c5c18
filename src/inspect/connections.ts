// The connections of Services that conntrack has.
import { formatEndpoint } from '../address.js'
import type { ConntrackFlow } from '../kernel/index.js'
import type { ServicePort } from '../model/index.js'
import { ownerOf, ownersOf, portsOf } from './frontend-owners.js'
import type { Inspected } from './inspected.js'
import { checkServiceName, headOf, type PortHead } from './services.js'

export interface ConnectionRow extends PortHead {
  /** `10.244.1.10:43210`. */
  readonly client: string
  /** The destination that the client chose: `10.96.0.10:80`. */
  readonly frontend: string
  /** `10.244.2.5:8080`. Absent: the kernel translates no destination, as in userspace mode. */
  readonly endpoint?: string
  /** In the spelling of conntrack(8). Absent: the protocol is not TCP. */
  readonly state?: string
  /** The kernel forgets the connection after so many seconds without a packet. */
  readonly timeoutSeconds: number
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
 * `service` of another form, and KernelError if the kernel does not list connections.
 */
export async function connections(
  inspected: Inspected,
  service: string | undefined,
): Promise<Connections | undefined> {
  if (service !== undefined) checkServiceName(service)
  const found: ConnectionRow[] = []
  let total = 0
  let isKnown = service === undefined
  for (const view of inspected.synchronizer.views) {
    const { family } = view.health
    const owners = await ownersOf(portsOf(view, service), inspected.clock)
    if (owners.size === 0) continue
    isKnown = true
    const listed = await inspected.flows(
      family,
      [...owners.values()].map(({ frontend }) => frontend),
      await inspected.machineAddresses(family),
      shownConnections - found.length,
    )
    total += listed.total
    for (const flow of listed.flows) {
      const owner = ownerOf(owners, flow)
      if (owner !== undefined) found.push(row(flow, owner.port))
    }
  }
  return isKnown ? { connections: found, total } : undefined
}

function row(flow: ConntrackFlow, port: ServicePort): ConnectionRow {
  const isTranslated = flow.replySource !== flow.destination || flow.replySourcePort !== flow.destinationPort
  return {
    ...headOf(port),
    client: formatEndpoint(flow.source, flow.sourcePort),
    frontend: formatEndpoint(flow.destination, flow.destinationPort),
    ...(isTranslated ? { endpoint: formatEndpoint(flow.replySource, flow.replySourcePort) } : {}),
    ...(flow.tcpState === undefined ? {} : { state: flow.tcpState }),
    timeoutSeconds: flow.timeoutSeconds,
  }
}
