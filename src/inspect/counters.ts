// The figures on the traffic of Services, for the rows that show them.
import { formatEndpoint } from '../address.js'
import {
  addCounters,
  countAt,
  type CounterReading,
  type PipelineView,
  type ServiceFlow,
  type TrafficCounters,
} from '../engine/index.js'
import type { ServicePort, ServicePortKey } from '../model/index.js'
import { describeFrontend, type Frontend } from '../routing/index.js'
import { type Owner, ownedFlows, ownerOf, type Owners, ownersOf, owns } from './frontend-owners.js'
import type { Inspected } from './inspected.js'

/** The readings of all families. */
export type Counters = ReadonlyMap<PipelineView, CounterReading>

/** Counts that are read before other work of the agent gets its turn: about 1 ms. */
const countsAtOnce = 500

/**
 * Reads the figures of each family, once for all rows: those of the mode's kernel objects, or the numbers of the
 * present connections.
 * `service`: as for `services`. Throws KernelError.
 */
export async function readCounters(inspected: Inspected, service: string | undefined): Promise<Counters> {
  const readings = new Map<PipelineView, CounterReading>()
  for (const view of inspected.synchronizer.views) {
    const reading =
      view.readCounters === undefined
        ? await countConnections(inspected, view, service)
        : await view.readCounters()
    if (reading !== undefined) readings.set(view, reading)
  }
  return readings
}

/** The figures of one service port, while they are added up. */
class PortCounts {
  total: TrafficCounters = noConnections
  readonly #endpoints = new Map<string, TrafficCounters>()
  readonly #frontends = new Map<string, TrafficCounters>()

  add(frontend: string, endpoint: string, counted: TrafficCounters): void {
    this.total = addCounters(this.total, counted)
    countAt(this.#frontends, frontend, counted)
    countAt(this.#endpoints, endpoint, counted)
  }

  endpoint({ address, port }: Endpoint): TrafficCounters {
    if (this.#endpoints.size === 0) return noConnections
    return this.#endpoints.get(formatEndpoint(address, port)) ?? noConnections
  }

  frontend(frontend: Frontend): TrafficCounters {
    if (this.#frontends.size === 0) return noConnections
    return this.#frontends.get(describeFrontend(frontend)) ?? noConnections
  }
}

const noConnections: TrafficCounters = { activeConnections: 0, inactiveConnections: 0 }

async function countConnections(
  inspected: Inspected,
  view: PipelineView,
  service: string | undefined,
): Promise<CounterReading> {
  const owners = await ownersOf(inspected, view, service)
  const ports = new Map<ServicePortKey, PortCounts>()
  const add = ({ port, known }: Owner, endpoint: Endpoint, counted: TrafficCounters): void => {
    const name = formatEndpoint(endpoint.address, endpoint.port)
    countsOf(ports, port).add(describeFrontend(known), name, counted)
  }
  if (view.readFlows === undefined) await countConntrack(inspected, view, owners, add)
  else
    for await (const { flow, owner } of ownedFlows(await view.readFlows(), owners, inspected.clock))
      add(owner, flow.endpoint, isActive(flow) ? oneActive : oneInactive)
  const nothing = new PortCounts()
  return (decided) => {
    const counts = ports.get(decided.key) ?? nothing
    return {
      total: counts.total,
      endpoint: (endpoint) => counts.endpoint(endpoint),
      frontend: (frontend) => (owns(owners, decided.key, frontend) ? counts.frontend(frontend) : {}),
    }
  }
}

type Endpoint = ServiceFlow['endpoint']
type Add = (owner: Owner, endpoint: Endpoint, counted: TrafficCounters) => void

const oneActive: TrafficCounters = { activeConnections: 1, inactiveConnections: 0 }
const oneInactive: TrafficCounters = { activeConnections: 0, inactiveConnections: 1 }

function isActive({ state }: ServiceFlow): boolean {
  return state === undefined || state === 'ESTABLISHED'
}

async function countConntrack(
  { clock, flowCounts, machineAddresses }: Inspected,
  { health: { family } }: PipelineView,
  owners: Owners,
  add: Add,
): Promise<void> {
  const frontends = [...owners.byFrontend.values()].map(({ frontend }) => frontend)
  let read = 0
  for (const flow of await flowCounts(family, frontends, await machineAddresses(family))) {
    if (++read % countsAtOnce === 0) await clock.pause()
    const owner = ownerOf(owners, flow)
    const endpoint = { address: flow.replySource, port: flow.replySourcePort }
    const counted = { activeConnections: flow.active, inactiveConnections: flow.inactive }
    if (owner !== undefined) add(owner, endpoint, counted)
  }
}

function countsOf(ports: Map<ServicePortKey, PortCounts>, { key }: ServicePort): PortCounts {
  let counts = ports.get(key)
  if (counts === undefined) {
    counts = new PortCounts()
    ports.set(key, counts)
  }
  return counts
}
