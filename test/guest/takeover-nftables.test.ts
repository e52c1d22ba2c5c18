// No new connection fails when nftables mode takes over from ipvs mode, kube-proxy's and ours, and gives the node back. Runs in the
// guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { ProxyMode } from '../../src/config/index.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { virtualServers } from '../traffic/node-state.js'
import { families } from '../traffic/table/world.js'
import { expectServed, TakeoverLab, theirServers } from '../traffic/takeover-lab.js'
import { clusterCidrs } from '../traffic/takeover-services.js'

const flags = [`--cluster-cidr=${families.map((family) => clusterCidrs[family]).join(',')}`]

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
})
