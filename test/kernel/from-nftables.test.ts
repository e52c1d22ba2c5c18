// The shipped agent in iptables mode of the legacy flavour takes over from kube-proxy in nftables mode, under load (issue 18, C7).
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { writeKubeProxyTables } from '../support/kube-proxy-nftables.js'
import { assertServed, SwitchLab } from '../traffic/switch-lab.js'

describe('from kube-proxy in nftables mode to iptables mode', { timeout: 120_000 }, () => {
  let lab: SwitchLab

  beforeEach(async () => (lab = await SwitchLab.create()))
  afterEach(async () => await lab.close())

  for (const first of ['nf_tables', 'x_tables'] as const) {
    it(`no connection, request or datagram is lost when ${first} registered its hooks first`, async () => {
      if (first === 'x_tables')
        for (const program of ['iptables-legacy', 'ip6tables-legacy'])
          await lab.node.must(program, '-t', 'nat', '-L')
      await writeKubeProxyTables(lab.node, lab.kubeProxyNodes)
      await lab.startLoad()
      const counts = await lab.during(async () => {
        const agent = lab.startAgent('iptables', '--iptables-flavour=legacy')
        await agent.line(/Leftovers of nftables mode: removed the table kube-proxy/u, 0)
        assert.equal(await lab.node.must('nft', 'list', 'tables'), '')
      })
      assertServed(counts)
    })
  }
})
