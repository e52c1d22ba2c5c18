import assert from 'node:assert/strict'
import { it } from 'node:test'
import { checks } from '../../../src/doctor/testing.js'
import { treeText } from '../../support/tree.js'

it('docs/doctor.md has the table of checks', () => {
  const rows = treeText('docs/doctor.md')
    .split('\n')
    .filter((line) => /^\| `[a-z]+-?[a-z-]*` \| /u.test(line))
    .slice(-checks.length)
  assert.deepEqual(
    rows.map((row) => row.replaceAll(/ +/gu, ' ')),
    checks.map(({ name, looksAt }) => `| \`${name}\` | ${looksAt} |`),
  )
})
