import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { changesBetween, type Finding, printChanges, printFindings } from '../../../src/doctor/index.js'

const fine: Finding = { check: 'a', status: 'ok', seen: 'fine' }
const odd: Finding = { check: 'b', status: 'warning', seen: 'odd', cause: 'Cause b.', remedy: 'Remedy b.' }
const bad: Finding = { check: 'c', status: 'broken', seen: 'bad', cause: 'Cause c.', remedy: 'Remedy c.' }
const findings: readonly Finding[] = [fine, odd, bad]

describe('the text of findings', () => {
  const problems =
    'broken   c: bad\n         Cause c.\n         Remedy c.\n' +
    'warning  b: odd\n         Cause b.\n         Remedy b.\n'

  it('has problems first, the worst ones before the others, and one line for the rest', () => {
    assert.equal(printFindings(findings, false), `${problems}ok       1 of 3: a\n`)
  })

  it('has a line for each check on request', () => {
    assert.equal(printFindings(findings, true), `${problems}ok       a: fine\n`)
  })
})

describe('the text of changes', () => {
  const worse: Finding = { ...odd, seen: 'odder' }
  const oddText = 'warning  b: odd\n         Cause b.\n         Remedy b.\n'
  const badText = 'broken   c: bad\n         Cause c.\n         Remedy c.\n'
  const cases = [
    { what: 'nothing', before: findings, after: findings, text: '' },
    { what: 'a check without problems', before: [], after: [fine], text: '' },
    { what: 'a problem that began', before: [fine], after: [odd, bad], text: `now\n${badText}${oddText}` },
    { what: 'a problem that ended', before: findings, after: [fine, odd], text: 'now\nended    c: bad\n' },
    {
      what: 'a problem with another text',
      before: [worse],
      after: [odd],
      text: `now\n${oddText}ended    b: odder\n`,
    },
  ]
  for (const { what, before, after, text } of cases) {
    it(`has ${what}`, () => {
      assert.equal(printChanges(changesBetween(before, after), 'now'), text)
    })
  }
})
