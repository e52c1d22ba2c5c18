import assert from 'node:assert/strict'
import { it } from 'node:test'
import { blocksOf } from '../support/nft-listing.js'
import { treeText } from '../support/tree.js'
import { runNftablesExample } from '../traffic/nft-examples.js'

it('docs/nftables-example.md has what nft prints now', { timeout: 60_000 }, async () => {
  const page = treeText('docs/nftables-example.md')
  const { table, removal, addition } = await runNftablesExample()
  assert.deepEqual(blocksOf(page).toSorted(), blocksOf(table).toSorted())
  for (const change of [removal, addition])
    assert.ok(page.includes(['```', ...change, '```'].join('\n')), change.join('\n'))
})
