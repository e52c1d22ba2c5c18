// route_localnet and its guard, in the order in which the parts of the recommended overlays start: real packets of a neighbour to a
// program on 127.0.0.1 of the node (CVE-2020-8558).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setSysctls } from '../support/namespaces.js'
import { Topology } from '../support/topology.js'
import { treeRoot } from '../support/tree.js'
import { privatePort } from '../traffic/table/world.js'

const silenceMs = 400
const limitMs = 5000
const setting = '/proc/sys/net/ipv4/conf/all/route_localnet'

describe('--init-only', { timeout: 60_000 }, () => {
  let lab: Topology
  let manifests: string
  before(async () => {
    lab = await Topology.build(['TCP'])
    manifests = mkdtempSync(join(tmpdir(), 'viaduct-localnet-'))
  })
  after(async () => {
    await lab.close()
    rmSync(manifests, { recursive: true })
  })

  async function agent(...flags: readonly string[]): Promise<void> {
    const always = ['--manifests', manifests, '--hostname-override=node-a', '--conntrack-max-per-core=0']
    await lab.node.must(process.execPath, join(treeRoot, 'dist/agent.js'), ...always, ...flags)
  }

  async function probe(limit: number): Promise<string> {
    const target = { protocol: 'TCP', address: '127.0.0.1', port: privatePort } as const
    return (await lab.prober('neighbour').probe(target, limit)).kind
  }

  for (const flavour of ['legacy', 'nft']) {
    // Before the fix, --init-only set route_localnet and wrote no rule: the neighbour got an answer.
    it(`of iptables mode writes the guard with the setting, and that of nftables mode takes it back: ${flavour}`, async () => {
      const iptables = ['--proxy-mode=iptables', `--iptables-flavour=${flavour}`]
      await agent(...iptables, '--init-only')
      assert.equal(await lab.node.must('cat', setting), '2')
      assert.equal(await probe(silenceMs), 'dropped')
      assert.match(await lab.node.must(`iptables-${flavour}-save`), /block incoming localnet connections/u)
      await agent('--proxy-mode=nftables', '--init-only')
      assert.equal(await lab.node.must('cat', setting), '0')
      assert.equal(await probe(silenceMs), 'dropped')
      await agent(...iptables, '--init-only')
      await agent(...iptables, '--cleanup')
      assert.equal(await lab.node.must('cat', setting), '0')
      await lab.node.must(`iptables-${flavour}`, '-F')
    })
  }

  it('keeps the setting of an administrator, and the neighbour reaches the program without a guard', async () => {
    await setSysctls(lab.node, 'net.ipv4.conf.all.route_localnet=1')
    await agent('--proxy-mode=nftables', '--init-only')
    await agent('--cleanup')
    assert.equal(await lab.node.must('cat', setting), '1')
    assert.equal(await probe(limitMs), 'answer')
  })
})
