// docs/operations.md, "Names on the node", names every chain that is pruned, table by table.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { treeRoot } from '../../support/tree.js'
import { formerChains } from '../../../src/agent/testing.js'

const text = readFileSync(join(treeRoot, 'docs/operations.md'), 'utf8')

describe('docs/operations.md', () => {
  for (const [table, patterns] of Object.entries(formerChains)) {
    const chains = patterns.map((pattern) => pattern.replace('?', ''))
    it(`names the chains that are pruned from ${table}`, () => {
      const row = new RegExp(`^\\| chains in \`${table}\` \\|.*$`, 'mu').exec(text)?.[0] ?? ''
      const named = [...row.matchAll(/`(KUBE-[^`]+)`/gu)].map((found) => found[1] ?? '')
      assert.deepEqual(named.toSorted(), chains.toSorted())
    })
  }
})
