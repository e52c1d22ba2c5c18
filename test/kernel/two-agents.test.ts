// Two agents of one build beside each other: the second one writes nothing, and no connection fails until the first one has ended.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { NftMonitor } from '../support/nft-monitor.js'
import { TwoAgents } from '../traffic/two-agents.js'

const modes = [
  ['iptables', '--iptables-flavour=legacy'],
  ['iptables', '--iptables-flavour=nft'],
  ['nftables'],
] as const

for (const [mode, ...flags] of modes) {
  describe(`two agents beside each other: ${[mode, ...flags].join(' ')}`, { timeout: 120_000 }, () => {
    let agents: TwoAgents
    before(async () => {
      agents = await TwoAgents.create()
      await agents.start(mode, ...flags)
    })
    after(async () => {
      await agents.close()
    })

    it('rest when both have started', async () => {
      const { node } = agents.lab
      const monitor = await NftMonitor.open(node)
      const former = await node.must('iptables-legacy-save')
      await agents.start(mode, ...flags)
      await agents.assertBothRest()
      assert.deepEqual(await monitor.take(), [])
      assert.equal(rulesOf(await node.must('iptables-legacy-save')), rulesOf(former))
      await monitor.close()
    })

    it('serve while endpoints change, and after the end of the first one', async () => {
      await agents.assertBothServe()
      await agents.assertBothRest()
      await agents.assertHandedOver()
      await agents.assertBothRest()
    })
  })
}

/** Without comments and counters. */
function rulesOf(saved: string): string {
  const lines = saved.split('\n').filter((line) => !line.startsWith('#'))
  return lines.map((line) => line.replace(/ \[\d+:\d+\]$/u, '')).join('\n')
}
