// Host ports of other programs beside VIPs that are local addresses, in ipvs mode, with real connections (issue 35, E5). Runs in the guest: it
// needs IP_VS.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { allServed, HostPortNode, hostPorts, nodeAddresses } from '../support/host-ports.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'

describe('a host port in ipvs mode', { timeout: 480_000 }, () => {
  let lab: HostPortNode
  beforeEach(async () => {
    lab = await HostPortNode.create()
  })
  afterEach(async () => await lab.close())

  async function tables(): Promise<string> {
    return await lab.node.must('nft', 'list', 'tables')
  }

  for (const [flavour, kind, isGuarded] of [
    ['legacy', 'nft', true],
    ['nft', 'legacy', true],
    ['nft', 'nftables', true],
    ['legacy', 'legacy', false],
  ] as const)
    it(`takes no Service's port where the agent's flavour is ${flavour} and portmap writes ${kind} rules`, async () => {
      await lab.portmap(kind)
      const flags = [`--iptables-flavour=${flavour}`]
      const agent = AgentProcess.start({ node: lab.node, manifests: lab.folder, mode: 'ipvs', flags })
      await agent.synced()
      assert.deepEqual(await lab.askAll(), allServed)
      assert.deepEqual(await lab.askAt(nodeAddresses), hostPorts)
      assert.equal((await agent.terminate()).code, 0)
      assert.equal((await tables()).split('viaduct-ipvs').length, isGuarded ? 3 : 1)
      if (flavour === 'legacy') return
      await lab.node.must(process.execPath, join(treeRoot, 'dist/agent.js'), '--cleanup')
      assert.doesNotMatch(await tables(), /viaduct/u)
    })
})
