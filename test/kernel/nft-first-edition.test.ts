// The agent takes a node over from the table of the first edition of the layout, while clients connect. That agent ran in a SwitchLab, and
// its transactions were recorded.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { it } from 'node:test'
import { eventually } from '../support/traffic.js'
import { treeRoot, treeText } from '../support/tree.js'
import { assertServed, SwitchLab } from '../traffic/switch-lab.js'

const fixture: { readonly rules: { readonly batches: string } } = JSON.parse(
  treeText('test/support/stored-rules/switch-lab/first-edition.json'),
)

/** Maps and chains of the first edition alone. */
const former =
  /(?:map|chain) \S*(?:-counts|service-endpoints|nodeport-endpoints|(?:service|nodeport)-\d+) \{/gu

it('no connection fails, and the former maps and chains go', { timeout: 120_000 }, async () => {
  const lab = await SwitchLab.create()
  try {
    const listed = async (): Promise<readonly string[]> => {
      const text = await lab.node.must('nft', 'list', 'ruleset')
      return [...text.matchAll(former)].map(([name]) => name)
    }
    const program = join(treeRoot, 'test/support/send-batches.py')
    await lab.node.must('sh', '-c', 'printf "%s" "$1" | python3 "$2"', 'sh', fixture.rules.batches, program)
    assert.equal((await listed()).length, 16)
    await lab.startLoad()
    const agent = lab.startAgent('nftables')
    assertServed(await lab.during(async () => await agent.synced()))
    assertServed(await lab.during(async () => void (await eventually(listed, ({ length }) => length === 0))))
  } finally {
    await lab.close()
  }
})
