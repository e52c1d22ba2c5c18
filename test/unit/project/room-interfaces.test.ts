// A room's index.ts exports what other rooms use. What only tests need is in the room's testing.ts.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { exportsOf, unusedOf, type Use, usesOf } from '../../support/room-interfaces.js'
import { roomOf } from '../../support/import-graph.js'
import { treeFiles, treeText } from '../../support/tree.js'

const files = treeFiles(/^(?:src|test|bench)\/.*\.c?ts$|^scripts\/.*\.mjs$/)
const uses = files.flatMap((path) => usesOf(path, treeText(path)))
const indexes = files.filter((path) => path === `${roomOf(path)}/index.ts`)
const insides = files.filter((path) => path.startsWith('src/') && path.endsWith('/testing.ts'))

function use(from: string, name: string): Use {
  return { from, to: 'src/a/index.ts', name }
}

describe('the reader of interfaces', () => {
  const texts: Readonly<Record<string, string>> = {
    'src/a/index.ts':
      "export { one, type Two } from './b.js'\nexport type * from './c.js'\nexport const three = 3\nexport * as four from './d.js'\nexport { five as six } from './e.js'",
    'src/a/c.ts': 'export interface Seven {}\nexport async function eight() {}\ninterface Nine {}',
  }
  const read = (path: string): string => texts[path] ?? ''

  it('finds each name that a file exports', () => {
    const names = [...exportsOf('src/a/index.ts', read)].toSorted()
    assert.deepEqual(names, ['Seven', 'Two', 'eight', 'four', 'one', 'six', 'three'])
  })

  it('finds each name that a file imports', () => {
    const text =
      "import { one, type Two as T } from '../a/index.js'\nimport type {\n  Seven,\n} from '../a/index.js'\nconst { six: s } = await import('../a/index.js')\nexport { three } from '../a/index.js'"
    const found = usesOf('src/x/y.ts', text)
    assert.deepEqual(
      found.map(({ name, to }) => `${to} ${name}`),
      ['one', 'Two', 'Seven', 'three', 'six'].map((name) => `src/a/index.ts ${name}`),
    )
  })

  it('counts other rooms and scripts as users, and neither the room itself nor tests', () => {
    const users = [
      use('src/b/x.ts', 'one'),
      use('scripts/docs/x.mjs', 'Two'),
      use('src/a/b.ts', 'three'),
      use('test/unit/a/b.test.ts', 'four'),
    ]
    assert.deepEqual(unusedOf('src/a/index.ts', users, read).toSorted(), [
      'Seven',
      'eight',
      'four',
      'six',
      'three',
    ])
  })
})

describe('the interface of each room', () => {
  it('is an index.ts', () => assert.ok(indexes.length > 20))

  for (const index of indexes)
    it(`${index} exports only what other rooms use`, () => assert.deepEqual(unusedOf(index, uses), []))
})

describe('a script', () => {
  it('imports only names that exist, which no compiler checks', () => {
    const ofScripts = uses.filter(({ from, to }) => from.startsWith('scripts/') && to.startsWith('src/'))
    assert.ok(ofScripts.length > 10)
    assert.deepEqual(
      ofScripts.filter(({ to, name }) => !exportsOf(to).has(name)),
      [],
    )
  })
})

describe('the testing.ts of a room', () => {
  it('exports only what tests and benchmarks use', () => {
    const used = new Set(uses.map(({ to, name }) => `${to} ${name}`))
    const unused = insides.flatMap((path) => [...exportsOf(path)].map((name) => `${path} ${name}`))
    assert.deepEqual(
      unused.filter((name) => !used.has(name)),
      [],
    )
  })

  it('exports nothing that the interface has', () => {
    const twice = insides.flatMap((path) => {
      const index = exportsOf(path.replace(/testing\.ts$/, 'index.ts'))
      return [...exportsOf(path)].filter((name) => index.has(name))
    })
    assert.deepEqual(twice, [])
  })
})
