// The long lists as tables.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { endpointTable, routeTable, serviceTable, type Table, tableTexts } from '../../../src/inspect/rows.js'
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

function linesOf<Row>(table: Table<Row>, rows: readonly Row[]): readonly string[] {
  const text = [...tableTexts(table, rows)].join('')
  return text === '' ? [] : text.replace(/\n$/u, '').split('\n')
}

/** The cells of the only row. Two blanks are between two columns at least. */
function cellsOf<Row>(table: Table<Row>, row: Row): readonly string[] {
  const [headings = '', line = ''] = linesOf(table, [row])
  const cells = line.split(/ {2,}/u)
  assert.equal(cells.length, headings.split(/ {2,}/u).length)
  return cells
}

/** One letter per column; the widths of the columns are those of the cells. */
const letters: Table<readonly string[]> = { headings: ['A', 'B'], cells: (row) => row }

const many = (count: number, ...row: readonly string[]): readonly (readonly string[])[] =>
  Array.from({ length: count }, () => row)

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
    { row: { port: '', node: '' }, cells: ['default/web:TCP', '10.1.0.1:8080', '-', 'ready,serving'] },
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
      assert.deepEqual(cellsOf(endpointTable(), { ...endpoint, ...row }).slice(0, cells.length), cells)
    })

  it('has the counts and the age of a Service', () => {
    assert.deepEqual(cellsOf(serviceTable(3_660_000), service), [
      'default/web:http/TCP',
      '10.96.0.10:80',
      '-',
      '203.0.113.1,203.0.113.2',
      '2/3',
      '1',
      'serve',
      '-',
      '1h0m',
    ])
  })

  it('has the reasons of a route, and the number of its backends', () => {
    assert.deepEqual(cellsOf(routeTable, route), [
      'default/web:http/TCP',
      'tcp 10.96.0.10:80',
      'serve',
      '2',
      'cluster IP; endpoints of the cluster serve it',
    ])
  })

  const aligned: readonly {
    readonly name: string
    readonly rows: readonly (readonly string[])[]
    readonly lines: readonly string[]
  }[] = [
    {
      name: 'has columns as wide as their widest cells',
      rows: [
        ['1', 'x'],
        ['long', 'x'],
      ],
      lines: ['A      B', '1      x', 'long   x'],
    },
    { name: 'shows a blank cell as -', rows: [['', '']], lines: ['A   B', '-   -'] },
    { name: 'without a row has its headings', rows: [], lines: ['A   B'] },
    {
      name: 'widens a column from a wider cell on, after the first rows',
      rows: [...many(2000, '1', '2'), ['333', '4'], ['1', '2']],
      lines: ['A   B', ...Array.from({ length: 2000 }, () => '1   2'), '333   4', '1     2'],
    },
  ]
  for (const { name, rows, lines } of aligned) it(name, () => assert.deepEqual(linesOf(letters, rows), lines))
})
