// docs/traffic.md maps rules to cases. It names only existing cases and groups, all cases, and every case of a rule.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { treeText } from '../../support/tree.js'
import { trafficTable } from '../../traffic/table/index.js'

const text = treeText('docs/traffic.md').replace(/^[^]*?(?=^## )/m, '')
const groups = trafficTable(['TCP', 'UDP'])
const cases = groups.flatMap((group) => group.cases)
const caseNames = new Set(cases.map(({ name }) => name))

function named(part: string): readonly string[] {
  return [...part.matchAll(/(?<!\*)\*([^*]+)\*(?!\*)/g)].map((match) => match[1] ?? '')
}

describe('docs/traffic.md', () => {
  it('names all cases, and only existing ones', () => {
    assert.deepEqual([...new Set(named(text))].toSorted(), [...caseNames].toSorted())
  })

  it('names groups that exist', () => {
    const groupNames = groups.map(({ name }) => name)
    const found = [...text.matchAll(/\*\*([^*]+)\*\*/g)].map((match) => match[1] ?? '')
    assert.ok(found.length > 0)
    assert.deepEqual(
      found.filter((name) => !groupNames.includes(name)),
      [],
    )
  })

  it('has a row for each rule of the table with all its cases', () => {
    const rows = new Map(
      [...text.matchAll(/^\| (F-\d+) \|(.*)$/gm)].map(([, rule, rest]) => [rule, rest ?? '']),
    )
    // The rules up to F-073 are about traffic.
    const claims = cases.flatMap(({ name, rules }) =>
      rules.filter((rule) => /^F-0(?:[0-6]\d|7[0-3])$/.test(rule)).map((rule) => ({ name, rule })),
    )
    const missing = claims.filter(({ name, rule }) => !named(rows.get(rule) ?? '').includes(name))
    assert.deepEqual(missing, [])
  })
})
