// YAML as Kubernetes reads it. test/support/kubernetes-yaml has what its library makes of each row, with the version.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseYaml } from '../../../src/config/index.js'
import { treeText } from '../../support/tree.js'

interface Row {
  readonly yaml: string
  readonly json?: unknown
  readonly error?: string
}

const rows = treeText('test/support/kubernetes-yaml/table.jsonl')
  .trim()
  .split('\n')
  .map((line): Row => JSON.parse(line))

/** Rows that this reader reads otherwise, with the result. */
const noNumber = 'a number that no field accepts'
const differences: Readonly<Record<string, { readonly reason: string; readonly result: unknown }>> = {
  ...Object.fromEntries(
    ['.inf', '+.inf', '.Inf', '.INF', '-.inf', '.nan', '.NaN', '.NAN'].map((text) => {
      const v = text.toLowerCase() === '.nan' ? NaN : text.startsWith('-') ? -Infinity : Infinity
      return [`v: ${text}\n`, { reason: noNumber, result: { v } }]
    }),
  ),
  'a: &a {x: 1, z: 2}\nb: {x: 3, <<: *a}\n': {
    reason: "a mapping's own field wins over a merged one wherever it stands, as YAML says",
    result: { a: { x: 1, z: 2 }, b: { x: 3, z: 2 } },
  },
  '~: 1\n': { reason: 'a field without a name is an unknown field', result: { null: 1 } },
  'null: 1\n': { reason: 'a field without a name is an unknown field', result: { null: 1 } },
  '%YAML 1.2\n---\nv: yes\n': { reason: 'the directive has no effect', result: { v: true } },
  'v: !custom abc\n': { reason: 'unknown tags are refused', result: 'line 1, column 15: unknown tag' },
  '': { reason: 'an empty file is refused', result: 'is empty' },
}
/** The only document, or the message of the error. */
function read(text: string): unknown {
  try {
    return parseYaml(text, () => {})[0] ?? null
  } catch (error) {
    return error instanceof Error ? error.message : error
  }
}

describe('parseYaml', () => {
  for (const { yaml, json, error } of rows) {
    const difference = differences[yaml]
    if (difference !== undefined) {
      it(`reads ${JSON.stringify(yaml)} otherwise: ${difference.reason}`, () =>
        assert.deepEqual(read(yaml), difference.result))
    } else if (error === undefined) {
      it(`reads ${JSON.stringify(yaml)} as ${JSON.stringify(json)}`, () => assert.deepEqual(read(yaml), json))
    } else {
      it(`refuses ${JSON.stringify(yaml)}`, () => assert.equal(typeof read(yaml), 'string'))
    }
  }

  it('reads every row, and differs nowhere else', () => {
    assert.ok(rows.length > 200)
    const texts = rows.map(({ yaml }) => yaml)
    assert.deepEqual(
      Object.keys(differences).filter((text) => !texts.includes(text)),
      [],
    )
  })

  const secrets = [
    '*hunter2',
    '!hunter2 x',
    '!<hunter2> x',
    '&a !!hunter2 x',
    '%TAG !h! hunter2:\n---\n!h!{ x',
    '"hunter2',
    '- [hunter2, }',
    'a: b: hunter2',
    '{hunter2',
  ]
  for (const text of secrets) {
    it(`does not repeat the file in the error of ${JSON.stringify(text)}`, () => {
      const message = read(text)
      assert.equal(typeof message, 'string')
      assert.doesNotMatch(String(message), /hunter2/u)
    })
  }
})

function problemOf(text: string): string | undefined {
  try {
    parseYaml(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : undefined
  }
}

describe('aliases', () => {
  const list = `- &list [${'x, '.repeat(1000)}]\n`
  const item = '- *list\n'
  it('may stand for nearly all values of a small file', () => {
    assert.equal(problemOf(list + item.repeat(90)), undefined)
    assert.match(
      problemOf(list + item.repeat(110)) ?? '',
      /^line 10\d: the aliases up to here stand for \d+ of \d+ values/u,
    )
  })

  it('may stand for a tenth of the values of a large file', () => {
    const large = `- [${'x, '.repeat(4_500_000)}]\n${list}`
    assert.equal(problemOf(large + item.repeat(400)), undefined)
    assert.notEqual(problemOf(large + item.repeat(600)), undefined)
  })

  it('count what they stand for: aliases of aliases, and merged mappings', () => {
    const levels = Array.from({ length: 12 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i}, `.repeat(10)}]\n`)
    assert.notEqual(problemOf(`a0: &a0 [x]\n${levels.join('')}`), undefined)
    const wide = `a: &a {${Array.from({ length: 5000 }, (_, i) => `f${i}: 1`).join(', ')}}\n`
    assert.notEqual(problemOf(`${wide}b:\n${'- <<: *a\n'.repeat(5000)}`), undefined)
  })

  it('may not contain themselves', () => {
    for (const text of ['a: &a [*a]', 'a: &a {b: [*a]}', '- &a\n  - - *a'])
      assert.match(problemOf(text) ?? '', /^line \d: an alias contains itself$/u, text)
  })
})
