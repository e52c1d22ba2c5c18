// Service ports, their endpoints and their routes, one row each. Rows are made while the reader takes them.
import { formatEndpoint } from '../address.js'
import { ConfigError } from '../errors.js'
import type { ServicePort, ServiceView } from '../model/index.js'
import {
  describeFrontend,
  explainFrontends,
  explainRoute,
  frontendsOf,
  type Reason,
  route,
  type Verdict,
  verdictOf,
} from '../routing/index.js'
import type { PipelineView } from '../engine/index.js'
import type { Inspected } from './inspected.js'
import { familyName, timeText } from './parts.js'
import { endpointTable, routeTable, serviceTable, type Table, tableLines } from './tables.js'

/** The head of each row: one port of one Service, in one family. */
export interface PortHead {
  /** `namespace/name`. */
  readonly service: string
  /** Blank: the port has no name. */
  readonly port: string
  readonly protocol: string
  readonly family: 'IPv4' | 'IPv6'
}

export interface ServiceRow extends PortHead {
  /** `10.96.0.10:80`. */
  readonly clusterIP: string
  /** 0: none. */
  readonly nodePort: number
  /** External IPs and load-balancer IPs. */
  readonly externalIPs: readonly string[]
  /** Numbers of all endpoints, and of those that serve policy Cluster and policy Local. */
  readonly endpoints: { readonly all: number; readonly cluster: number; readonly local: number }
  /** The verdict on new connections to the cluster IP. */
  readonly internal: Verdict
  /** The verdict on new connections from outside. Absent: it has no such frontend. */
  readonly external?: Verdict
  /** RFC 3339, UTC: since when its last change is in force. Absent: it is not, or that is not known. */
  readonly since?: string
}

export interface EndpointRow extends PortHead {
  /** `10.1.0.1:8080`. */
  readonly endpoint: string
  /** Blank: not known. */
  readonly node: string
  readonly conditions: { readonly ready: boolean; readonly serving: boolean; readonly terminating: boolean }
  /** Whether traffic of each policy uses the endpoint, and the rule of docs/traffic.md that decided. */
  readonly cluster: EndpointUse
  readonly local: EndpointUse
}

export interface EndpointUse extends Reason {
  readonly isUsed: boolean
}

export interface RouteRow extends PortHead {
  /** `tcp 10.96.0.10:80`. */
  readonly frontend: string
  readonly verdict: Verdict
  readonly reasons: readonly Reason[]
  /** The endpoints that serve the frontend. */
  readonly backends: readonly string[]
  /** The kernel objects that the mode desires for the service port, in the syntax of the mode's tools. Only for one Service. */
  readonly kernel?: readonly string[]
}

/** A list that grows with the cluster. */
export interface Rows<Row> {
  readonly items: Iterable<Row>
}

/** A list that is also a table. NB: read the items or the lines, once. */
export interface TableRows<Row> extends Rows<Row> {
  /** The heading and the rows (`tableLines`). */
  readonly lines: Iterable<string>
}

/**
 * One row per service port; `service` (`namespace/name`) selects one Service. undefined: that Service is not known. Throws
 * ConfigError for a `service` of another form.
 */
export function services(
  inspected: Inspected,
  service: string | undefined,
): TableRows<ServiceRow> | undefined {
  const items = rows(inspected, service, (port, view) => [serviceRow(port, view, inspected)])
  return withTable(items, serviceTable(inspected.clock.unixMs()))
}

/** One row per endpoint of each service port. As `services` otherwise. */
export function endpoints(
  inspected: Inspected,
  service: string | undefined,
): TableRows<EndpointRow> | undefined {
  const items = rows(inspected, service, (port, { services: view }) => endpointRows(port, view, inspected))
  return withTable(items, endpointTable)
}

/** One row per frontend of each service port. As `services` otherwise. */
export function routes(inspected: Inspected, service: string | undefined): TableRows<RouteRow> | undefined {
  const isDetailed = service !== undefined
  const items = rows(inspected, service, (port, view) => routeRows(port, view, inspected, isDetailed))
  return withTable(items, routeTable)
}

function withTable<Row>(items: Iterable<Row> | undefined, table: Table<Row>): TableRows<Row> | undefined {
  return items && { items, lines: tableLines(table, items) }
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

export function headOf({ service, portName, protocol, clusterIP }: ServicePort): PortHead {
  return { service, port: portName, protocol, family: familyName(clusterIP.includes(':') ? 'ipv6' : 'ipv4') }
}

function serviceRow(port: ServicePort, view: PipelineView, { node }: Inspected): ServiceRow {
  const known = view.services.endpoints(port)
  const since = view.inForceSince(port.key)
  const decided = route(port, known, node.facts)
  // Field by field: V8 makes a literal that spreads another object many times slower.
  return {
    service: port.service,
    port: port.portName,
    protocol: port.protocol,
    family: familyName(view.health.family),
    clusterIP: formatEndpoint(port.clusterIP, port.port),
    nodePort: port.nodePort,
    externalIPs: [...new Set([...port.externalIPs, ...port.loadBalancerIPs])],
    endpoints: {
      all: known.length,
      cluster: decided.clusterBackends.length,
      local: decided.localBackends.length,
    },
    internal: verdictOf(decided, 'internal'),
    ...(port.isExternallyAccessible ? { external: verdictOf(decided, 'external') } : {}),
    ...(since === undefined ? {} : { since: timeText(since) }),
  }
}

function endpointRows(port: ServicePort, view: ServiceView, { node }: Inspected): readonly EndpointRow[] {
  const explained = explainRoute(port, view.endpoints(port), node.facts)
  const { service, port: portName, protocol, family } = headOf(port)
  return explained.endpoints.map(({ endpoint, cluster, local }) => ({
    service,
    port: portName,
    protocol,
    family,
    endpoint: formatEndpoint(endpoint.address, endpoint.port),
    node: endpoint.nodeName ?? '',
    conditions: { ready: endpoint.isReady, serving: endpoint.isServing, terminating: endpoint.isTerminating },
    cluster: { isUsed: cluster.isChosen, rule: cluster.rule, text: cluster.text },
    local: { isUsed: local.isChosen, rule: local.rule, text: local.text },
  }))
}

function routeRows(
  port: ServicePort,
  view: PipelineView,
  { node }: Inspected,
  isDetailed: boolean,
): readonly RouteRow[] {
  const decided = route(port, view.services.endpoints(port), node.facts)
  const { service, port: portName, protocol, family } = headOf(port)
  const [first] = frontendsOf(port)
  return explainFrontends(decided).map(({ frontend, verdict, reasons }) => {
    const isClusterIP = frontend.kind === 'address' && frontend.address === port.clusterIP
    const isLocal = isClusterIP ? port.isInternalLocal : port.isExternalLocal
    const backends = isLocal ? decided.localBackends : decided.clusterBackends
    const isFirst = first !== undefined && describeFrontend(frontend) === describeFrontend(first)
    return {
      service,
      port: portName,
      protocol,
      family,
      frontend: describeFrontend(frontend),
      verdict,
      reasons,
      backends: backends.map((backend) => formatEndpoint(backend.address, backend.port)),
      ...(isDetailed && isFirst ? { kernel: view.describe(decided) } : {}),
    }
  })
}
