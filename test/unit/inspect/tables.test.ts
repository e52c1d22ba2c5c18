// The long lists as lines of cells.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { endpointTable, routeTable, serviceTable, tableLines } from '../../../src/inspect/tables.js'
import type { EndpointRow, RouteRow, ServiceRow } from '../../../src/inspect/index.js'

const head = { service: 'default/web', port: 'http', protocol: 'TCP', family: 'IPv4' } as const

const endpoint: EndpointRow = {
  ...head,
  endpoint: '10.1.0.1:8080',
  node: 'node-a',
  conditions: { ready: true, serving: true, terminating: false },
  cluster: { isUsed: true, rule: 'F-032', text: 'ready' },
  local: { isUsed: false, rule: 'F-033', text: 'not on this node' },
}

const service: ServiceRow = {
  ...head,
  clusterIP: '10.96.0.10:80',
  nodePort: 0,
  externalIPs: ['203.0.113.1', '203.0.113.2'],
  endpoints: { all: 3, cluster: 2, local: 1 },
  internal: 'serve',
  since: '1970-01-01T00:01:00.000Z',
}

const route: RouteRow = {
  ...head,
  frontend: 'tcp 10.96.0.10:80',
  verdict: 'serve',
  reasons: [
    { rule: 'F-007', text: 'cluster IP' },
    { rule: 'F-032', text: 'endpoints of the cluster serve it' },
  ],
  backends: ['10.1.0.1:8080', '10.1.0.2:8080'],
}

function linesOf(rows: readonly EndpointRow[]): readonly (readonly string[])[] {
  return [...tableLines(endpointTable, rows)].map((line) => line.split('\t'))
}

describe('a list as a table', () => {
  const cases: readonly { readonly row: Partial<EndpointRow>; readonly cells: readonly string[] }[] = [
    {
      row: {},
      cells: [
        'default/web:http/TCP',
        '10.1.0.1:8080',
        'node-a',
        'ready,serving',
        'yes: ready',
        'no: not on this node',
      ],
    },
    { row: { port: '', node: '' }, cells: ['default/web:TCP', '10.1.0.1:8080', '', 'ready,serving'] },
    {
      row: { conditions: { ready: false, serving: true, terminating: true } },
      cells: ['default/web:http/TCP', '10.1.0.1:8080', 'node-a', 'serving,terminating'],
    },
    // A tab would begin another cell, a newline another row; an escape moves a terminal's cursor.
    { row: { node: 'a\tb' }, cells: ['default/web:http/TCP', '10.1.0.1:8080', 'a\u{FFFD}b'] },
    {
      row: { node: 'a\nb\u001B[2J' },
      cells: ['default/web:http/TCP', '10.1.0.1:8080', 'a\u{FFFD}b\u{FFFD}[2J'],
    },
    { row: { node: 'n\u00F6de' }, cells: ['default/web:http/TCP', '10.1.0.1:8080', 'n\u00F6de'] },
  ]
  for (const { row, cells } of cases)
    it(`has the endpoint ${JSON.stringify(row)} as cells`, () => {
      const [headings = [], line = []] = linesOf([{ ...endpoint, ...row }])
      assert.equal(line.length, headings.length)
      assert.deepEqual(line.slice(0, cells.length), cells)
    })

  it('has the counts and the age of a Service', () => {
    const [headings, line] = tableLines(serviceTable(3_660_000), [service])
    assert.equal(headings?.split('\t').length, 9)
    assert.equal(
      line,
      'default/web:http/TCP\t10.96.0.10:80\t\t203.0.113.1,203.0.113.2\t2/3\t1\tserve\t\t1h0m',
    )
  })

  it('has the reasons of a route, and the number of its backends', () => {
    const [, line] = tableLines(routeTable, [route])
    assert.equal(
      line,
      'default/web:http/TCP\ttcp 10.96.0.10:80\tserve\t2\tcluster IP; endpoints of the cluster serve it',
    )
  })
})
