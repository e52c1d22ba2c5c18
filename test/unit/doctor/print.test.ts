import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Finding, printFindings } from '../../../src/doctor/index.js'

const findings: readonly Finding[] = [
  { check: 'a', status: 'ok', seen: 'fine' },
  { check: 'b', status: 'warning', seen: 'odd', cause: 'Cause b.', remedy: 'Remedy b.' },
  { check: 'c', status: 'broken', seen: 'bad', cause: 'Cause c.', remedy: 'Remedy c.' },
]

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
