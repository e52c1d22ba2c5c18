// No new connection fails when nftables mode takes over from ipvs mode, kube-proxy's and ours, and gives the node back. Runs in the
// guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { release } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { ProxyMode } from '../../src/config/index.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { virtualServers } from '../traffic/node-state.js'
import { families } from '../traffic/table/world.js'
import { expectServed, TakeoverLab, theirServers } from '../traffic/takeover-lab.js'
import { clusterCidrs } from '../traffic/takeover-services.js'

const flags = [`--cluster-cidr=${families.map((family) => clusterCidrs[family]).join(',')}`]

/** nf_tables has had tables with an owner since Linux 5.13. */
const hasOwnedTables = release().localeCompare('5.13', 'en', { numeric: true }) >= 0

describe('takeover to nftables mode and back', { timeout: 900_000 }, () => {
  let lab: TakeoverLab
  let agent: AgentProcess | undefined

  before(async () => {
    lab = await TakeoverLab.create()
    await lab.build()
    // Connections that end with the virtual servers are left out: those through IPVS, and those of the node from a VIP that is its
    // own address (docs/nftables.md).
    lab.startLoad(({ kind }, place) => kind !== 'exchange' && place !== 'node')
  })
  after(async () => {
    await lab.close()
  })

  /** Resolves when the mode is in force and the objects of the former one are gone. */
  async function change(mode: ProxyMode, former: string): Promise<void> {
    await agent?.terminate()
    agent = AgentProcess.start({ node: lab.node, manifests: lab.manifests, mode, flags })
    await agent.synced()
    await agent.line(new RegExp(`Leftovers of ${former} mode: removed`, 'u'), 0)
  }

  /** Whether there is a table of nf_tables, and whether there are virtual servers except foreign ones. */
  async function present(): Promise<readonly [nft: boolean, ipvs: boolean]> {
    const tables = await lab.node.must('nft', 'list', 'tables')
    const { length } = await virtualServers(lab.node)
    return [tables !== '', length > theirServers]
  }

  it("from kube-proxy's ipvs mode", async (context) => {
    const counts = await lab.during(async () => await change('nftables', 'ipvs'))
    expectServed(context, "from kube-proxy's ipvs mode", counts)
    assert.deepEqual(await present(), [true, false])
  })

  it('back to ipvs mode, with connections that began in nftables mode', async (context) => {
    lab.startLoad(({ kind }) => kind === 'exchange')
    await lab.during(async () => {})
    const counts = await lab.during(async () => await change('ipvs', 'nftables'))
    expectServed(context, 'back to ipvs mode', counts)
    assert.deepEqual(await present(), [false, true])
  })

  it('from ipvs mode, with connections that began in nftables mode', async (context) => {
    const counts = await lab.during(async () => await change('nftables', 'ipvs'))
    expectServed(context, 'from ipvs mode', counts)
    assert.deepEqual(await present(), [true, false])
  })

  // Issue 43, B2: on Linux 5.10 the command said `EINVAL` alone.
  it(`viaduct hand-over ${hasOwnedTables ? 'copies the table' : 'says that this kernel cannot'}`, async () => {
    const agentFile = join(treeRoot, 'dist/agent.js')
    const { code, stdout, stderr } = await lab.node.run(
      process.execPath,
      agentFile,
      'hand-over',
      '--timeout=0.1',
    )
    const [out, err] = hasOwnedTables
      ? [
          /^viaduct: the table viaduct-hand-over keeps Services reachable \(/u,
          /^viaduct: no rules of kube-proxy in /u,
        ]
      : [
          /^$/u,
          /^viaduct: this kernel has no tables that end with their owner, which Linux has since 5\.13: /u,
        ]
    assert.match(stdout, out)
    assert.match(stderr, err)
    assert.equal(code, 1)
    assert.doesNotMatch(await lab.node.must('nft', 'list', 'tables'), /viaduct/u)
  })
})
