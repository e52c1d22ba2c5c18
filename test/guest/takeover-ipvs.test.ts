// No connection fails when the agent takes over from kube-proxy in ipvs mode, restarts, or is killed. Runs in the guest: it needs
// IP_VS.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, it, type TestContext } from 'node:test'
import type { Namespace } from '../support/namespaces.js'
import { orderOfWrites, tracedWrites } from '../support/system-call-trace.js'
import { eventually } from '../support/traffic.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { virtualServers } from '../traffic/node-state.js'
import { families } from '../traffic/table/world.js'
import { expectServed, lookAt, type NodeState, TakeoverLab, theirServers } from '../traffic/takeover-lab.js'
import { clusterCidrs, leftoverPath, webWithOneEndpoint } from '../traffic/takeover-services.js'

const flags = [`--cluster-cidr=${families.map((family) => clusterCidrs[family]).join(',')}`]
/** The real server of a removed endpoint that still has a client. No manifest has it. */
const leftover = `-a -t ${leftoverPath.address}:${leftoverPath.port} -r ${leftoverPath.by[0] ?? ''}:8080 -m -w 0`

describe('takeover in ipvs mode', { timeout: 300_000 }, () => {
  let lab: TakeoverLab
  let agent: AgentProcess
  let untouched: readonly string[]
  /** The state after a first start with the same objects on a node without rules. */
  let fresh: NodeState
  /** The servers that answered the client with session affinity. */
  const kept = new Set<string>()

  before(async () => {
    lab = await TakeoverLab.create()
    const built = lab.build()
    fresh = await stateOfFreshStart()
    await built
    untouched = (await lookAt(lab.node)).theirs
    await lab.startLeftover()
    lab.startLoad()
  })
  after(async () => {
    await lab.close()
  })

  async function start(node: Namespace, ...prefix: readonly string[]): Promise<AgentProcess> {
    const started = AgentProcess.start({ node, manifests: lab.manifests, flags, before: prefix })
    await started.synced()
    return started
  }

  async function stateOfFreshStart(): Promise<NodeState> {
    const started = await start(lab.freshNode)
    const { ours } = await lookAt(lab.freshNode)
    await started.kill()
    return ours
  }

  /** Counts attempts during `run` and for some time after it, prints the counts, and expects no failure. */
  async function underLoad(context: TestContext, title: string, run: () => Promise<void>): Promise<void> {
    const counts = await lab.during(run)
    expectServed(context, title, counts)
    for (const [name, { by }] of Object.entries(counts))
      if (name.includes('sticky')) for (const address of by) kept.add(address)
    assert.equal(kept.size, 1, 'session affinity holds')
  }

  /** Waits until unused objects are removed, and expects this state. */
  async function expectState(expected: NodeState): Promise<void> {
    const count = expected.servers.length + theirServers
    await eventually(
      async () => await virtualServers(lab.node),
      ({ length }) => length === count,
    )
    assert.deepEqual(await lookAt(lab.node), { ours: expected, theirs: untouched })
  }

  it('kube-proxy alone', async (context) => {
    await underLoad(context, 'kube-proxy alone', async () => {})
  })

  it('takeover: no connection fails, and the state is that of a first start', async (context) => {
    const trace = lab.file('trace')
    await underLoad(context, 'takeover', async () => {
      agent = await start(lab.node, ...tracedWrites(trace))
    })
    const servers = [...fresh.servers, leftover].toSorted()
    await expectState({ ...fresh, servers })
    const order = orderOfWrites(await readFile(trace, 'utf8'))
    // First the weights of real servers, then the rules, then the new routes of the VIPs, and last the removal of their addresses.
    const expected = ['SET_DEST', 'SET_REPLACE', 'RTM_NEWROUTE', 'RTM_DELADDR']
    for (const family of families)
      assert.deepEqual(
        order[family].filter((write) => expected.includes(write)),
        expected,
        `${family}: ${order[family].join(', ')}`,
      )
  })

  it('a restart: no connection fails, and nothing is written', async (context) => {
    await underLoad(context, 'restart', async () => {
      assert.equal((await agent.terminate()).code, 0)
      const trace = lab.file('trace of the second')
      agent = await start(lab.node, ...tracedWrites(trace))
      assert.deepEqual(orderOfWrites(await readFile(trace, 'utf8')), { IPv4: [], IPv6: [] })
    })
  })

  it('kill -9 during a change: no connection fails, and the next start completes the change', async (context) => {
    await lab.endLeftover()
    const web = lab.manifestOf('web')
    await underLoad(context, 'kill -9', async () => {
      await lab.publish('web', webWithOneEndpoint())
      await agent.line(/"Sync done"/u, agent.lineCount)
      await lab.publish('web', web)
      await agent.kill()
      agent = await start(lab.node)
    })
    await expectState(fresh)
  })
})
