// Host ports of other programs beside VIPs that are local addresses, in userspace mode, with real connections (issue 35, E5).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { allServed, HostPortNode, hostPorts } from '../support/host-ports.js'
import { eventually } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'

/** Whether a list of tables has the guard of both families. */
function isGuarded(tables: string): boolean {
  return tables.split('viaduct-userspace').length === 3
}

describe('a host port in userspace mode', { timeout: 60_000 }, () => {
  let lab: HostPortNode
  beforeEach(async () => {
    lab = await HostPortNode.create()
  })
  afterEach(async () => await lab.close())

  for (const kind of ['legacy', 'nft', 'nftables'] as const)
    it(`takes no Service's port where portmap writes ${kind} rules`, async () => {
      await lab.portmap(kind)
      const agent = AgentProcess.start({ node: lab.node, manifests: lab.folder, mode: 'userspace' })
      await agent.synced()
      assert.deepEqual(await lab.askAll(), allServed)
      assert.deepEqual(await lab.askNode(), hostPorts)
      assert.equal((await agent.terminate()).code, 0)
    })

  it('no table is made where no program translates addresses, and --cleanup removes the one that was made', async () => {
    const tables = async (): Promise<string> => await lab.node.must('nft', 'list', 'tables')
    const flags = ['--iptables-sync-period=1s']
    const agent = AgentProcess.start({ node: lab.node, manifests: lab.folder, mode: 'userspace', flags })
    await agent.synced()
    assert.equal(await tables(), '')
    await lab.portmap('nftables')
    assert.ok(isGuarded(await eventually(tables, isGuarded)))
    assert.deepEqual(await lab.askAll(), allServed)
    await agent.terminate()
    assert.ok(isGuarded(await tables()))
    await lab.node.must(process.execPath, join(treeRoot, 'dist/agent.js'), '--cleanup')
    assert.equal(await tables(), 'table ip cni_hostport\ntable ip6 cni_hostport')
  })
})
