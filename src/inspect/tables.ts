// The long lists as tables for people. The agent makes them: a client would first have to read a long list of objects.
import { duration, portText, printable } from '../words.js'
import type { EndpointRow, EndpointUse, RouteRow, ServiceRow } from './services.js'

/** The form of a row in a table. */
export interface Table<Row> {
  readonly headings: readonly string[]
  /** One per heading. Blank: the row has no such value. */
  readonly cells: (row: Row) => readonly (string | number)[]
}

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
      row.clusterIP,
      row.nodePort === 0 ? '' : row.nodePort,
      row.externalIPs.join(','),
      `${row.endpoints.cluster}/${row.endpoints.all}`,
      row.endpoints.local,
      row.internal,
      row.external ?? '',
      inForceText(row.since, nowMs),
    ],
  }
}

export const endpointTable: Table<EndpointRow> = {
  headings: ['SERVICE PORT', 'ENDPOINT', 'NODE', 'CONDITIONS', 'CLUSTER', 'LOCAL'],
  cells: (row) => [
    portText(row),
    row.endpoint,
    row.node,
    conditionsText(row.conditions),
    useText(row.cluster),
    useText(row.local),
  ],
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

/** The first two columns of a table, then the counters. */
export function withCounters<Row extends Pick<ServiceRow, 'counters'>>({
  headings,
  cells,
}: Table<Row>): Table<Row> {
  return {
    headings: [
      ...headings.slice(0, 2),
      'CONNECTIONS',
      'ACTIVE',
      'INACTIVE',
      'PACKETS IN',
      'PACKETS OUT',
      'BYTES IN',
      'BYTES OUT',
    ],
    cells: (row) => [...cells(row).slice(0, 2), ...counterCells(row.counters)],
  }
}

/** Blank: this mode has no such counter. */
function counterCells(counters: ServiceRow['counters'] = {}): readonly (string | number)[] {
  return [
    counters.connections ?? '',
    counters.activeConnections ?? '',
    counters.inactiveConnections ?? '',
    counters.packetsIn ?? '',
    counters.packetsOut ?? '',
    counters.bytesIn ?? '',
    counters.bytesOut ?? '',
  ]
}

/** The heading and the rows as lines of cells with a tab between two of them. A cell has no tab and no other unprintable character. */
export function* tableLines<Row>(
  { headings, cells }: Table<Row>,
  rows: Iterable<Row>,
): Generator<string, void, undefined> {
  // One look at the whole line: nearly all lines are of ASCII, and have no other tab.
  const plain = new RegExp(`^[ -~]*(?:\\t[ -~]*){${headings.length - 1}}$`, 'u')
  yield headings.join('\t')
  for (const row of rows) {
    const all = cells(row)
    const line = all.join('\t')
    yield plain.test(line) ? line : all.map((cell) => printable(String(cell))).join('\t')
  }
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

function useText({ isUsed, text }: EndpointUse): string {
  return `${isUsed ? 'yes' : 'no'}: ${text}`
}
