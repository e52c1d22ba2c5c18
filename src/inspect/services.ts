// Service ports, their endpoints and their routes, one row each. Rows are made while the reader takes them.
import { formatEndpoint } from '../address.js'
import { ConfigError } from '../errors.js'
import type { ServicePort } from '../model/index.js'
import {
  describeFrontend,
  explainFrontends,
  explainRoute,
  type Frontend,
  type FrontendReasons,
  frontendsOf,
  type Reason,
  type Route,
  route,
  verdictOf,
} from '../routing/index.js'
import type { PipelineView, PortCounters, TrafficCounters } from '../engine/index.js'
import { type FrontendOwner, unservedProtocol } from './conflicts.js'
import type { Counters } from './counters.js'
import { type Inspected, familyName, timeText } from './inspected.js'
import {
  type EndpointRow,
  type FrontendVerdict,
  type PortHead,
  type RouteRow,
  type ServiceRow,
  type CountedRow,
  counterTable,
  endpointTable,
  noClusterIP,
  routeTable,
  serviceTable,
  type Table,
  tableTexts,
} from './rows.js'
import { portText } from '../words.js'

/** Readings of the agent that come before the rows. */
export interface ReadForRows {
  /** The figures to show; absent: none. */
  readonly counters?: Counters | undefined
}

/** A list that grows with the cluster. */
export interface Rows<Row> {
  readonly items: Iterable<Row>
}

/** A list that is also a table. NB: read the items or the texts, once. */
export interface TableRows<Row> extends Rows<Row> {
  /** The table (`tableTexts`). */
  readonly texts: Iterable<string>
}

/**
 * One row per service port; `service` (`namespace/name`) selects one Service. undefined: that Service is not known. Throws ConfigError
 * for a `service` of another form.
 */
export function services(
  inspected: Inspected,
  service: string | undefined,
  read: ReadForRows,
): TableRows<ServiceRow> | undefined {
  const items = rows(inspected, service, (port, view) => [serviceRow(port, view, inspected, read)])
  if (read.counters === undefined) return withTable(items, serviceTable(inspected.clock.unixMs()))
  const counted = countedRows(inspected, service, read.counters, (port, _view, figures) => [
    [clusterIPText(port) ?? noClusterIP, figures?.total],
  ])
  return withCounters(items, 'CLUSTER IP', counted)
}

/** One row per endpoint of each service port. As `services` otherwise. */
export function endpoints(
  inspected: Inspected,
  service: string | undefined,
  { counters }: Pick<ReadForRows, 'counters'>,
): TableRows<EndpointRow> | undefined {
  const items = rows(inspected, service, (port, view) => endpointRows(port, view, inspected, counters))
  if (counters === undefined) return withTable(items, endpointTable())
  const counted = countedRows(inspected, service, counters, (port, { services: known }, figures) =>
    known
      .endpoints(port)
      .map((endpoint) => [formatEndpoint(endpoint.address, endpoint.port), figures?.endpoint(endpoint)]),
  )
  return withCounters(items, 'ENDPOINT', counted)
}

/** One row per frontend of each service port. As `services` otherwise. */
export function routes(
  inspected: Inspected,
  service: string | undefined,
  read: ReadForRows,
): TableRows<RouteRow> | undefined {
  const isDetailed = service !== undefined
  const items = rows(inspected, service, (port, view) =>
    routeRows(port, view, inspected, { isDetailed, ...read }),
  )
  if (read.counters === undefined) return withTable(items, routeTable)
  const counted = countedRows(inspected, service, read.counters, (port, _view, figures) =>
    frontendsOf(port).map((frontend) => [describeFrontend(frontend), figures?.frontend(frontend)]),
  )
  return withCounters(items, 'FRONTEND', counted)
}

function withTable<Row>(items: Iterable<Row> | undefined, table: Table<Row>): TableRows<Row> | undefined {
  return items && { items, texts: tableTexts(table, items) }
}

/** The list with a table of its counters alone, whose rows need no reasons. */
function withCounters<Row>(
  items: Iterable<Row> | undefined,
  place: string,
  counted: Iterable<CountedRow> | undefined,
): TableRows<Row> | undefined {
  return items && counted && { items, texts: tableTexts(counterTable(place), counted) }
}

/** The rows of one service port: places, each with its figures. */
type Places = (
  port: ServicePort,
  view: PipelineView,
  figures: PortCounters | undefined,
) => readonly (readonly [place: string, figures: TrafficCounters | undefined])[]

function countedRows(
  inspected: Inspected,
  service: string | undefined,
  counters: Counters,
  placesOf: Places,
): Iterable<CountedRow> | undefined {
  return rows(inspected, service, (port, view) => {
    const decided = route(port, view.services.endpoints(port), inspected.node.facts)
    const text = portText(headOf(port))
    return placesOf(port, view, counters.get(view)?.(decided)).map(([place, figures = {}]) => ({
      port: text,
      place,
      counters: figures,
    }))
  })
}

function rows<Row>(
  { synchronizer }: Inspected,
  service: string | undefined,
  rowsOf: (port: ServicePort, view: PipelineView) => readonly Row[],
): Iterable<Row> | undefined {
  const { views } = synchronizer
  if (service === undefined) return each(views, ({ services: view }) => view.servicePorts(), rowsOf)
  checkServiceName(service)
  const isKnown = views.some(({ services: view }) => view.servicePortsOf(service).length > 0)
  return isKnown ? each(views, ({ services: view }) => view.servicePortsOf(service), rowsOf) : undefined
}

/** Throws ConfigError if the text is not `namespace/name`. */
export function checkServiceName(service: string): void {
  // The longest names of namespaces and of Services have 63 characters, with room for others.
  if (!/^[^/\s]{1,253}\/[^/\s]{1,253}$/u.test(service))
    throw new ConfigError('service', `must be NAMESPACE/NAME, not ${JSON.stringify(service.slice(0, 100))}`)
}

function* each<Row>(
  views: readonly PipelineView[],
  portsOf: (view: PipelineView) => Iterable<ServicePort>,
  rowsOf: (port: ServicePort, view: PipelineView) => readonly Row[],
): Generator<Row> {
  for (const view of views) for (const port of portsOf(view)) yield* rowsOf(port, view)
}

export function headOf({ service, portName, protocol, family }: ServicePort): PortHead {
  return { service, port: portName, protocol, family: familyName(family) }
}

/** The figures of a row that `of` finds; undefined without `counters`. */
function countersPart(
  counters: Counters | undefined,
  view: PipelineView,
  decided: Route,
): (of: (counted: PortCounters) => TrafficCounters) => TrafficCounters | undefined {
  if (counters === undefined) return () => undefined
  const counted = counters.get(view)?.(decided)
  return (of) => (counted === undefined ? {} : of(counted))
}

function serviceRow(
  port: ServicePort,
  view: PipelineView,
  { node }: Inspected,
  { counters }: ReadForRows,
): ServiceRow {
  const known = view.services.endpoints(port)
  const since = view.inForceSince(port.key)
  const decided = route(port, known, node.facts)
  const lost = view.lostFrontends(port).map(({ frontend }) => frontend)
  const isUnserved = lackOf(port, view) !== undefined
  // Field by field: V8 makes a literal that spreads another object many times slower.
  return {
    service: port.service,
    port: port.portName,
    protocol: port.protocol,
    family: familyName(view.health.family),
    clusterIP: clusterIPText(port),
    nodePort: port.nodePort,
    externalIPs: [...new Set([...port.externalIPs, ...port.loadBalancerIPs])],
    endpoints: {
      all: known.length,
      cluster: decided.clusterBackends.length,
      local: decided.localBackends.length,
    },
    internal: internalVerdict(decided, lost, isUnserved),
    external: externalVerdict(decided, lost, isUnserved),
    conflicts: lost.length === 0 ? undefined : lost.map(describeFrontend),
    counters: countersPart(counters, view, decided)(({ total }) => total),
    since: since === undefined ? undefined : timeText(since),
  }
}

function isClusterIP({ clusterIP }: ServicePort, frontend: Frontend): boolean {
  return frontend.kind === 'address' && frontend.address === clusterIP
}

/** `10.96.0.10:80`; undefined: the Service has no cluster IP. */
function clusterIPText({ clusterIP, port }: ServicePort): string | undefined {
  return clusterIP && formatEndpoint(clusterIP, port)
}

/** Why the mode serves nothing of this protocol; undefined: it does. */
function lackOf({ protocol }: ServicePort, view: PipelineView): string | undefined {
  return unservedProtocol(protocol, () => view.packetRules()?.isRelayed === true)
}

function internalVerdict(
  decided: Route,
  lost: readonly Frontend[],
  isUnserved: boolean,
): FrontendVerdict | undefined {
  if (decided.clusterIP === undefined) return undefined
  if (lost.some((frontend) => isClusterIP(decided, frontend))) return 'conflict'
  return isUnserved ? 'refuse' : verdictOf(decided, 'internal')
}

function externalVerdict(
  decided: Route,
  lost: readonly Frontend[],
  isUnserved: boolean,
): FrontendVerdict | undefined {
  if (!decided.isExternallyAccessible) return undefined
  const isExternal = (frontend: Frontend): boolean => !isClusterIP(decided, frontend)
  const isLost =
    lost.length > 0 && lost.filter(isExternal).length === frontendsOf(decided).filter(isExternal).length
  if (isLost) return 'conflict'
  return isUnserved ? 'refuse' : verdictOf(decided, 'external')
}

function endpointRows(
  port: ServicePort,
  view: PipelineView,
  { node }: Inspected,
  counters: Counters | undefined,
): readonly EndpointRow[] {
  const explained = explainRoute(port, view.services.endpoints(port), node.facts)
  const { service, port: portName, protocol, family } = headOf(port)
  const countersOf = countersPart(counters, view, explained.route)
  return explained.endpoints.map(({ endpoint, cluster, local }) => {
    const name = formatEndpoint(endpoint.address, endpoint.port)
    return {
      service,
      port: portName,
      protocol,
      family,
      endpoint: name,
      node: endpoint.nodeName ?? '',
      conditions: {
        ready: endpoint.isReady,
        serving: endpoint.isServing,
        terminating: endpoint.isTerminating,
      },
      cluster,
      local,
      counters: countersOf((counted) => counted.endpoint(endpoint)),
    }
  })
}

function routeRows(
  port: ServicePort,
  view: PipelineView,
  { node }: Inspected,
  { isDetailed, counters }: ReadForRows & { readonly isDetailed: boolean },
): readonly RouteRow[] {
  const decided = route(port, view.services.endpoints(port), node.facts)
  const { service, port: portName, protocol, family } = headOf(port)
  const [first] = frontendsOf(port)
  const countersOf = countersPart(counters, view, decided)
  const lost = new Map(view.lostFrontends(port).map((one) => [describeFrontend(one.frontend), one]))
  const lack = lackOf(port, view)
  const hasOwn = isDetailed && lost.size < frontendsOf(port).length
  return explainFrontends(decided).map((explained) => {
    const { frontend } = explained
    const name = describeFrontend(frontend)
    const other = lost.get(name)
    const { verdict, reasons } =
      other === undefined ? unlessLacking(explained, lack) : contested(explained, other)
    const isLocal = isClusterIP(port, frontend) ? port.isInternalLocal : port.isExternalLocal
    const isServed = other === undefined && lack === undefined
    const backends = isServed ? (isLocal ? decided.localBackends : decided.clusterBackends) : []
    const isFirst = first !== undefined && name === describeFrontend(first)
    return {
      service,
      port: portName,
      protocol,
      family,
      frontend: name,
      verdict,
      reasons,
      backends: backends.map((backend) => formatEndpoint(backend.address, backend.port)),
      counters: countersOf((counted) => counted.frontend(frontend)),
      kernel: isFirst && hasOwn ? view.describe(decided) : undefined,
    }
  })
}

type Explained = Pick<RouteRow, 'verdict' | 'reasons'>

/** The first reason names the kind of the frontend. */
function contested({ reasons }: FrontendReasons, { owner, reason }: FrontendOwner): Explained {
  const conflict: Reason = { rule: 'F-001', text: `belongs to ${owner}, ${reason}` }
  return { verdict: 'conflict', reasons: [...reasons.slice(0, 1), conflict] }
}

function unlessLacking(explained: FrontendReasons, lack: string | undefined): Explained {
  if (lack === undefined) return explained
  const reason: Reason = { rule: 'F-001', text: lack }
  return { verdict: 'refuse', reasons: [...explained.reasons.slice(0, 1), reason] }
}
