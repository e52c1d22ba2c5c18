// Host ports of other programs beside VIPs that are local addresses, in userspace mode, with real connections (issue 35, E5).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { allServed, HostPortNode, hostPorts, nodeAddresses } from '../support/host-ports.js'
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
      assert.deepEqual(await lab.askAt(nodeAddresses), hostPorts)
      assert.equal((await agent.terminate()).code, 0)
    })

  for (const kind of ['legacy', 'nft', 'nftables'] as const)
    it(`keeps all ports but the Service's at the node's own address that is an external IP, beside ${kind} rules`, async () => {
      await lab.portmap(kind)
      await lab.serveExternalIPs(nodeAddresses)
      const agent = AgentProcess.start({ node: lab.node, manifests: lab.folder, mode: 'userspace' })
      await agent.synced()
      assert.deepEqual(await lab.askAt(nodeAddresses), hostPorts)
      assert.deepEqual(await lab.askAt(nodeAddresses, 8888), { ipv4: 'Service', ipv6: 'Service' })
      assert.deepEqual(await lab.askAll(), allServed)
      await agent.terminate()
    })

  it('has an external IP while an interface of the node has it, as keepalived moves it, and no longer', async () => {
    const [moved, lengths] = [
      { ipv4: '198.51.100.7', ipv6: 'fd00:99::7' },
      { ipv4: 32, ipv6: 128 },
    ]
    const move = async (verb: 'add' | 'del'): Promise<void> => {
      for (const family of ['ipv4', 'ipv6'] as const)
        await lab.node.ip(`addr ${verb} ${moved[family]}/${lengths[family]} dev veth0`)
    }
    const asked = async (): Promise<string> => JSON.stringify(await lab.askAt(moved))
    await lab.portmap('nft')
    await lab.serveExternalIPs(moved)
    const agent = AgentProcess.start({ node: lab.node, manifests: lab.folder, mode: 'userspace' })
    await agent.synced()
    const before = await asked()
    assert.doesNotMatch(before, /host port/)
    await move('add')
    await eventually(asked, (answer) => answer === JSON.stringify(hostPorts))
    await move('del')
    await eventually(asked, (answer) => answer === before)
    assert.deepEqual(await lab.askAt(moved, 8888), { ipv4: 'Service', ipv6: 'Service' })
    await agent.terminate()
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
