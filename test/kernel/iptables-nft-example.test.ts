import assert from 'node:assert/strict'
import { it } from 'node:test'
import { blocksOf } from '../support/nft-listing.js'
import { treeText } from '../support/tree.js'
import { runIptablesNftExample } from '../traffic/nft-examples.js'

it(
  'docs/iptables-nft-example.md has what iptables-nft-save and nft print now',
  { timeout: 60_000 },
  async () => {
    const page = treeText('docs/iptables-nft-example.md')
    const { saved, baseChains } = await runIptablesNftExample()
    const rules = saved.split('\n')
    const printed = page.split('\n').filter((line) => /^(?:\*[a-z]|:|-A |COMMIT$)/u.test(line))
    assert.deepEqual(printed, rules)
    assert.deepEqual(blocksOf(page), baseChains)
  },
)
