// The last fallback: userspace mode on a kernel without netfilter. Runs in the guest, before any of its modules is loaded.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { withoutModules } from '../support/kernel-modules.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess, agentCommand } from '../traffic/agent-process.js'
import { buildShopLab, type ShopLab } from '../traffic/shop-lab.js'
import { sessionsPort, shopAddresses, shopPorts } from '../traffic/shop-services.js'

const netfilter = /^(?:ip6?_tables|x_tables|nf_tables|nf_conntrack|nfnetlink|ip_set|ip_vs) /m
const shop = join(treeRoot, 'examples/shop')

async function modules(): Promise<string> {
  return await readFile('/proc/modules', 'utf8')
}

describe('a kernel without netfilter', { timeout: 300_000 }, () => {
  let lab: ShopLab
  before(async () => {
    assert.doesNotMatch(await modules(), netfilter, 'this file runs first')
    lab = await buildShopLab()
  })
  after(() => lab.close())

  it('serves the Services of examples/shop in userspace mode, the last fallback', async () => {
    await withoutModules('*', async () => {
      const flags = ['--iptables-flavour=auto']
      const agent = AgentProcess.start({ node: lab.node, manifests: shop, flags })
      const line = await agent.line(/Proxy mode falls back/u, 0)
      for (const words of [
        /userspace mode runs instead: ipvs mode cannot run here/u,
        /this kernel has no IP_VS/u,
        /iptables mode.* cannot run here: this kernel/u,
        /nftables mode cannot run here: this kernel has no nf_tables/u,
      ])
        assert.match(line, words)
      await agent.synced()
      for (const { name, target, backends } of shopPorts) {
        const answering = await lab.client.backends(target, 2 * backends.length)
        assert.deepEqual([...new Set(answering)].toSorted(), backends, name)
      }
      const ofSession = new Set(await lab.client.backends(sessionsPort.target, 6))
      assert.equal(ofSession.size, 1)
      assert.doesNotMatch(await modules(), netfilter)
      assert.equal((await agent.terminate()).code, 0)
    })
  })

  it('is left without VIP routes by --cleanup', async () => {
    await withoutModules('*', async () => {
      const routes = async (): Promise<readonly string[]> => {
        const listing = ['-4', '-6'].map((family) =>
          lab.node.must('ip', family, 'route', 'show', 'table', 'local', 'proto', '173'),
        )
        return (await Promise.all(listing)).flatMap((text) => text.trim().split('\n')).filter(Boolean)
      }
      const addresses = (await routes()).map((line) => line.split(' ')[1] ?? '')
      assert.deepEqual(addresses.toSorted(), shopAddresses)
      await lab.node.must(...agentCommand('--cleanup'))
      assert.deepEqual(await routes(), [])
    })
  })
})
