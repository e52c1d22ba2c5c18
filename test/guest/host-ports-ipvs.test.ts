// Host ports of other programs beside VIPs that are local addresses, in ipvs mode, with real connections (issue 35, E5). Runs in the guest: it
// needs IP_VS.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { allServed, HostPortNode } from '../support/host-ports.js'
import { AgentProcess } from '../traffic/agent-process.js'

describe('a host port in ipvs mode', { timeout: 480_000 }, () => {
  let lab: HostPortNode
  beforeEach(async () => {
    lab = await HostPortNode.create()
  })
  afterEach(async () => await lab.close())

  for (const [flavour, kind] of [
    ['legacy', 'nft'],
    ['nft', 'legacy'],
  ] as const)
    it(`takes no Service's port where the agent's flavour is ${flavour} and portmap writes ${kind} rules`, async () => {
      await lab.portmap(kind)
      const flags = [`--iptables-flavour=${flavour}`]
      const agent = AgentProcess.start({ node: lab.node, manifests: lab.folder, mode: 'ipvs', flags })
      await agent.synced()
      assert.deepEqual(await lab.askAll(), allServed)
      assert.equal((await agent.terminate()).code, 0)
    })
})
