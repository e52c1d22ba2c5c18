// The long lists: one row is a service port, an endpoint or a frontend; and the lists as tables for people. The agent makes the tables: a
// client would first have to read a long list of objects.
import type { TrafficCounters } from '../engine/index.js'
import type { EndpointChoice, Reason, Verdict } from '../routing/index.js'
import { type Cell, Columns, duration, portText } from '../words.js'

/** The fate of new connections. `conflict`: another service port, the node itself or another machine has the frontend (docs/adr/0007, docs/adr/0028). */
export type FrontendVerdict = Verdict | 'conflict'

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
  /** `10.96.0.10:80`. Absent: the Service has none. */
  readonly clusterIP?: string | undefined
  /** 0: none. */
  readonly nodePort: number
  /** External IPs and load-balancer IPs. */
  readonly externalIPs: readonly string[]
  /** Numbers of all endpoints, and of those that serve policy Cluster and policy Local. */
  readonly endpoints: { readonly all: number; readonly cluster: number; readonly local: number }
  /** The verdict on new connections to the cluster IP. Absent: there is none. */
  readonly internal?: FrontendVerdict | undefined
  /** The verdict on new connections from outside; `conflict` if all such frontends have one. Absent: there is no such frontend. */
  readonly external?: FrontendVerdict | undefined
  /** The frontends that others have, such as `tcp 203.0.113.1:80`. Absent: none. */
  readonly conflicts?: readonly string[] | undefined
  /** The sum of all frontends; absent: not asked for. */
  readonly counters?: TrafficCounters | undefined
  /** RFC 3339, UTC: since when its last change is in force. Absent: it is not, or that is not known. */
  readonly since?: string | undefined
}

export interface EndpointRow extends PortHead {
  /** `10.1.0.1:8080`. */
  readonly endpoint: string
  /** Blank: not known. */
  readonly node: string
  readonly conditions: { readonly ready: boolean; readonly serving: boolean; readonly terminating: boolean }
  /** Whether traffic of each policy uses the endpoint, and the rule of docs/traffic.md that decided. */
  readonly cluster: EndpointChoice
  readonly local: EndpointChoice
  /** Absent: not asked for. */
  readonly counters?: TrafficCounters | undefined
}

export interface RouteRow extends PortHead {
  /** `tcp 10.96.0.10:80`. */
  readonly frontend: string
  readonly verdict: FrontendVerdict
  readonly reasons: readonly Reason[]
  /** The endpoints that serve the frontend. */
  readonly backends: readonly string[]
  /** Absent: not asked for. */
  readonly counters?: TrafficCounters | undefined
  /**
   * The kernel objects that the mode desires for the service port, in the syntax of the mode's tools. Only for one Service. Absent if
   * others have all of its frontends.
   */
  readonly kernel?: readonly string[] | undefined
}

/** The form of a row in a table. */
export interface Table<Row> {
  readonly headings: readonly string[]
  /** One per heading. Blank: the row has no such value. */
  readonly cells: (row: Row) => readonly Cell[]
}

/** The cell of a Service without a cluster IP, as in kubectl. */
export const noClusterIP = '<none>'

/** `nowMs`: Unix milliseconds, for the ages. */
export function serviceTable(nowMs: number): Table<ServiceRow> {
  return {
    headings: [
      'SERVICE PORT',
      'CLUSTER IP',
      'NODE PORT',
      'EXTERNAL IPS',
      'ENDPOINTS',
      'LOCAL',
      'INTERNAL',
      'EXTERNAL',
      'IN FORCE',
    ],
    cells: (row) => [
      portText(row),
      row.clusterIP ?? noClusterIP,
      row.nodePort === 0 ? '' : row.nodePort,
      row.externalIPs.join(','),
      `${row.endpoints.cluster}/${row.endpoints.all}`,
      row.endpoints.local,
      row.internal ?? '',
      externalText(row),
      inForceText(row.since, nowMs),
    ],
  }
}

export function endpointTable(): Table<EndpointRow> {
  const nameOf = portTexts()
  return {
    headings: ['SERVICE PORT', 'ENDPOINT', 'NODE', 'CONDITIONS', 'CLUSTER', 'LOCAL'],
    cells: (row) => [
      nameOf(row),
      row.endpoint,
      row.node,
      conditionsText(row.conditions),
      useText(row.cluster),
      useText(row.local),
    ],
  }
}

export const routeTable: Table<RouteRow> = {
  headings: ['SERVICE PORT', 'FRONTEND', 'VERDICT', 'BACKENDS', 'REASONS'],
  cells: (row) => [
    portText(row),
    row.frontend,
    row.verdict,
    row.backends.length,
    row.reasons.map(({ text }) => text).join('; '),
  ],
}

/** A row of counters. */
export interface CountedRow {
  readonly port: string
  /** A frontend, or an endpoint. */
  readonly place: string
  readonly counters: TrafficCounters
}

/** `place`: the heading of the second column. */
export function counterTable(place: string): Table<CountedRow> {
  return {
    headings: [
      'SERVICE PORT',
      place,
      'CONNECTIONS',
      'ACTIVE',
      'INACTIVE',
      'PACKETS IN',
      'PACKETS OUT',
      'BYTES IN',
      'BYTES OUT',
    ],
    // Blank: this mode has no such counter.
    cells: (row) => [
      row.port,
      row.place,
      row.counters.connections ?? '',
      row.counters.activeConnections ?? '',
      row.counters.inactiveConnections ?? '',
      row.counters.packetsIn ?? '',
      row.counters.packetsOut ?? '',
      row.counters.bytesIn ?? '',
      row.counters.bytesOut ?? '',
    ],
  }
}

/** Rows that decide on the widths of the columns. A wider cell after them widens its column from there on. */
const firstRows = 2000

/**
 * The table as texts of whole lines. No row: the headings alone. While the first rows come, the texts are empty: a reader can
 * let other work have its turn between two rows.
 */
export function* tableTexts<Row>(
  { headings, cells }: Table<Row>,
  rows: Iterable<Row>,
): Generator<string, void, undefined> {
  const columns = new Columns(headings)
  let first: (readonly Cell[])[] | undefined = []
  for (const row of rows) {
    const line = cells(row)
    if (first === undefined) {
      yield columns.line(line)
    } else {
      columns.widen(line)
      first.push(line)
      yield ''
      if (first.length < firstRows) continue
      yield* linesOf(columns, [headings, ...first])
      first = undefined
    }
  }
  if (first !== undefined) yield* linesOf(columns, [headings, ...first])
}

function* linesOf(columns: Columns, rows: Iterable<readonly Cell[]>): Generator<string, void, undefined> {
  for (const row of rows) yield columns.line(row)
}

/** `serve,conflict`: only some of the frontends have the verdict. */
function externalText({ internal, external, conflicts = [] }: ServiceRow): string {
  if (external === undefined) return ''
  const isPart = conflicts.length > (internal === 'conflict' ? 1 : 0) && external !== 'conflict'
  return isPart ? `${external},conflict` : external
}

/** `3h7m`. A clock that was set back gives `0s`. */
function inForceText(since: string | undefined, nowMs: number): string {
  if (since === undefined) return ''
  return duration(Math.max(0, Math.floor((nowMs - Date.parse(since)) / 1000)))
}

function conditionsText(conditions: EndpointRow['conditions']): string {
  const { ready, serving, terminating } = conditions
  if (ready && serving && !terminating) return 'ready,serving'
  return [ready ? 'ready' : '', serving ? 'serving' : '', terminating ? 'terminating' : '']
    .filter((name) => name !== '')
    .join(',')
}

/** `portText`, made once for rows of the same service port that come one after the other. */
function portTexts(): (head: PortHead) => string {
  let last: PortHead = { service: '', port: '', protocol: '', family: 'IPv4' }
  let text = ''
  return (head) => {
    const { service, port, protocol } = head
    if (service !== last.service || port !== last.port || protocol !== last.protocol) text = portText(head)
    last = head
    return text
  }
}

/** The texts of uses: there are as many as rules. An equal text is the same object, so that comparing it costs nothing. */
const usedTexts = new Map<string, string>()
const unusedTexts = new Map<string, string>()

function useText({ isUsed, text }: EndpointChoice): string {
  const texts = isUsed ? usedTexts : unusedTexts
  let use = texts.get(text)
  if (use === undefined) {
    use = `${isUsed ? 'yes' : 'no'}: ${text}`
    texts.set(text, use)
  }
  return use
}
