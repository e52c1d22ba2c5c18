// A table whose columns are aligned while it arrives.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { aligned } from '../../../src/commands/aligned.js'

async function tableOf(...texts: readonly string[]): Promise<string> {
  const pieces: string[] = []
  for await (const piece of aligned(Readable.from(texts))) pieces.push(piece)
  return pieces.join('')
}

const many = (count: number, cells: string): string => `${cells}\n`.repeat(count)

describe('a table of the agent', () => {
  const cases: readonly {
    readonly name: string
    readonly texts: readonly string[]
    readonly table: string
  }[] = [
    {
      name: 'has columns as wide as their widest cells',
      texts: ['A\tB\n', 'long\tx\n\n'],
      table: 'A      B\nlong   x\n',
    },
    { name: 'shows a blank cell as -', texts: ['A\tB\tC\n\t\t\n\n'], table: 'A   B   C\n-   -   -\n' },
    { name: 'without a row is empty', texts: ['A\tB\n\n'], table: '' },
    {
      name: 'widens a column from a wider cell on, after the first rows',
      texts: ['A\tB\n', many(2000, '1\t2'), '333\t4\n', '5\t6\n\n'],
      table: `A   B\n${many(2000, '1   2')}333   4\n5     6\n`,
    },
  ]
  for (const { name, texts, table } of cases)
    it(name, async () => assert.equal(await tableOf(...texts), table))
})
