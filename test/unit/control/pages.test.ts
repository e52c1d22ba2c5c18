// Long replies of the control socket, in parts.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { controlPages } from '../../../src/control/index.js'
import type { Inspected } from '../../../src/inspect/index.js'
import { ManualClock } from '../../support/manual-clock.js'

async function partsOf(lines: readonly string[]): Promise<readonly Buffer[]> {
  const clock = new ManualClock()
  // The page of the log reads nothing else.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const inspected = { clock } as unknown as Inspected
  const pages = controlPages(inspected, {
    log: () => lines,
    flags: {},
    metrics: async () => await Promise.resolve(''),
  })
  const reply = await pages.get('/v1/log')?.({
    method: 'GET',
    query: new URLSearchParams(),
    accept: undefined,
    host: undefined,
    signal: new AbortController().signal,
    body: async () => await Promise.resolve(undefined),
  })
  assert.ok(reply !== undefined && typeof reply.body !== 'string')
  const parts: Buffer[] = []
  for await (const part of reply.body) parts.push(Buffer.from(part))
  return parts
}

describe('a long reply', () => {
  const cases: readonly {
    readonly name: string
    readonly lines: readonly string[]
    readonly parts: number
  }[] = [
    { name: 'without a row', lines: [], parts: 1 },
    { name: 'of one row', lines: ['a'], parts: 1 },
    {
      name: 'of more bytes than a part has',
      lines: Array.from({ length: 300 }, () => 'x'.repeat(1000)),
      parts: 5,
    },
    {
      name: 'with a row that is longer than a part',
      lines: ['a'.repeat(2000), '\u20AC'.repeat(100_000), 'b'.repeat(2000)],
      parts: 3,
    },
  ]
  for (const { name, lines, parts: count } of cases)
    it(`${name} is whole`, async () => {
      const parts = await partsOf(lines)
      const text = Buffer.concat(parts).toString()
      assert.deepEqual(JSON.parse(text), { items: lines })
      assert.match(text, /\n\]\}\n$/)
      assert.equal(parts.length, count)
    })
})
