// ipvs mode where x_tables live in nf_tables: takeovers without a failed connection, repairs, and the clean-up. Runs in the guest: it
// needs IP_VS.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, it, type TestContext } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { XtFlavour } from '../../src/kernel/index.js'
import type { Namespace } from '../support/namespaces.js'
import { orderOfWrites, tracedWrites } from '../support/system-call-trace.js'
import { eventually } from '../support/traffic.js'
import { agentCommand, AgentProcess } from '../traffic/agent-process.js'
import { families } from '../traffic/table/world.js'
import { expectServed, lookAt, type NodeState, TakeoverLab } from '../traffic/takeover-lab.js'
import { clusterCidrs } from '../traffic/takeover-services.js'

const clusterCidr = `--cluster-cidr=${families.map((family) => clusterCidrs[family]).join(',')}`

/** As `lookAt`. A rule that the agent adopts keeps the order of its matches, which does not matter. */
async function stateOf(
  node: Namespace,
): Promise<{ readonly ours: NodeState; readonly theirs: readonly string[] }> {
  const { ours, theirs } = await lookAt(node, 'nft')
  return { ours: { ...ours, chains: ours.chains.map(withSortedMatches) }, theirs }
}

function withSortedMatches(line: string): string {
  const [start = '', ...matches] = line.split(/ (?=-m |-j )/u)
  return [start, ...matches.toSorted()].join(' ')
}

/**
 * The paths that depend on the rules: masquerading, marks of policy Local, source ranges, and connections that must go on. The guest is
 * slow, and more paths would make everything slower.
 */
const paths: ReadonlySet<string> = new Set([
  'pod, connection: local load balancer IPv4',
  'pod, exchange: web cluster IP IPv4',
  'pod, query: dns cluster IP IPv6',
  'node, connection: web cluster IP IPv4',
  'node, exchange: web cluster IP IPv6',
  'node, query: dns cluster IP IPv4',
  'outside, connection: web node port IPv6',
  'outside, connection: local node port IPv4',
  'outside, connection: guarded load balancer IPv4',
  'outside, exchange: web node port IPv4',
  'outside, exchange: local load balancer IPv4',
  'outside, query: dns node port IPv4',
])

/** Changes of another program that cut off no client, and the family, table and chain of which the log reports the repair. */
const changes = [
  ['iptables-nft -t nat -D PREROUTING 1', 'IPv4', 'nat', 'PREROUTING'],
  ['ip6tables-nft -t mangle -F KUBE-IPVS-IN', 'IPv6', 'mangle', 'KUBE-IPVS-IN'],
  ['iptables-nft -I KUBE-FORWARD -s 192.0.2.254 -j DROP', 'IPv4', 'filter', 'KUBE-FORWARD'],
] as const

describe('ipvs mode in the flavour nft', { timeout: 900_000 }, () => {
  let lab: TakeoverLab
  let agent: AgentProcess
  let untouched: readonly string[]
  /** The state after a first start with the same objects on a node without rules. */
  let fresh: NodeState

  before(async () => {
    lab = await TakeoverLab.create('nft')
    const built = lab.build()
    fresh = await stateOfFreshStart()
    await built
    untouched = (await stateOf(lab.node)).theirs
    lab.startLoad(({ name }, place) => paths.has(`${place}, ${name}`))
  })
  after(async () => {
    await lab.close()
  })

  async function start(flavour: XtFlavour, ...prefix: readonly string[]): Promise<AgentProcess> {
    const flags = [clusterCidr, `--iptables-flavour=${flavour}`]
    const started = AgentProcess.start({ node: lab.node, manifests: lab.manifests, flags, before: prefix })
    await started.synced()
    return started
  }

  /** Counts attempts during `run` and for some time after it, prints the counts, and expects no failure. */
  async function underLoad(context: TestContext, title: string, run: () => Promise<void>): Promise<void> {
    expectServed(context, title, await lab.during(run))
  }

  async function stateOfFreshStart(): Promise<NodeState> {
    const flags = [clusterCidr, '--iptables-flavour=nft']
    const started = AgentProcess.start({ node: lab.freshNode, manifests: lab.manifests, flags })
    await started.synced()
    const { ours } = await stateOf(lab.freshNode)
    await started.kill()
    return ours
  }

  /** Waits for the state of a first start, and expects the objects of others unchanged. */
  async function expectFreshState(): Promise<void> {
    const { theirs } = await eventually(
      async () => await stateOf(lab.node),
      ({ ours }) => isDeepStrictEqual(ours, fresh),
    )
    assert.deepEqual(theirs, untouched)
  }

  /** Chains of kube-proxy's names and ours in the legacy tables. A look at a legacy table that does not exist would create it. */
  async function legacyChains(): Promise<readonly string[]> {
    const script = 'cat /proc/net/ip_tables_names 2>/dev/null | grep -q . && iptables-legacy-save || true'
    const saved = await lab.node.must('sh', '-c', script)
    return saved.split('\n').filter((line) => line.includes('KUBE-'))
  }

  it('takeover from kube-proxy: no connection fails, and the state is that of a first start', async (context) => {
    const trace = lab.file('trace')
    await underLoad(context, 'takeover', async () => {
      agent = await start('nft', ...tracedWrites(trace))
    })
    await expectFreshState()
    const order = orderOfWrites(await readFile(trace, 'utf8'))
    // First the weights of real servers, then the rules, then the new routes of the VIPs, and last the removal of their addresses.
    const expected = ['SET_DEST', 'NFT_TRANSACTION', 'RTM_NEWROUTE', 'RTM_DELADDR']
    for (const family of families)
      assert.deepEqual(
        order[family].filter((write) => [...expected, 'SET_REPLACE'].includes(write)),
        expected,
        `${family}: ${order[family].join(', ')}`,
      )
    assert.equal(await lab.node.must('sh', '-c', 'cat /proc/net/ip*_tables_names 2>/dev/null || true'), '')
  })

  it('a restart: no connection fails, and nothing is written', async (context) => {
    await underLoad(context, 'restart', async () => {
      assert.equal((await agent.terminate()).code, 0)
      const trace = lab.file('trace of the second')
      agent = await start('nft', ...tracedWrites(trace))
      assert.deepEqual(orderOfWrites(await readFile(trace, 'utf8')), { IPv4: [], IPv6: [] })
    })
  })

  it('to the legacy flavour and back: no connection fails, and the other flavour keeps no rules', async (context) => {
    await underLoad(context, 'to legacy', async () => {
      assert.equal((await agent.terminate()).code, 0)
      agent = await start('legacy')
      await agent.line(/Leftovers of /u, 0)
    })
    assert.notDeepEqual(await legacyChains(), [])
    const { ours, theirs } = await stateOf(lab.node)
    assert.deepEqual([ours.chains, theirs], [chainsOfOthers(), untouched])
    await underLoad(context, 'to nft', async () => {
      assert.equal((await agent.terminate()).code, 0)
      agent = await start('nft')
      await agent.line(/Leftovers of /u, 0)
    })
    assert.deepEqual(await legacyChains(), [])
    await expectFreshState()
  })

  it('repairs and reports what another program changes', async (context) => {
    const from = agent.lineCount
    for (const [command, family, table, chain] of changes) {
      await lab.node.must(...command.split(' '))
      const changedMs = Date.now()
      const fields = `"${family}","table":"${table}","missing":\\[\\],"changed":\\["${chain}"\\]`
      const line = await agent.line(new RegExp(`${fields}.*Kernel state differs and is repaired`, 'u'), from)
      const repairedMs = Number(/"ts":(\d+)/u.exec(line)?.[1])
      context.diagnostic(`${command}: repaired within ${Math.max(0, repairedMs - changedMs)} ms`)
    }
    await expectFreshState()
  })

  /** The lines of the kernel's own chains, which stay. */
  function chainsOfOthers(): readonly string[] {
    return fresh.chains.filter((line) => !line.includes('KUBE-'))
  }

  it('--cleanup removes everything of ours, and nothing else', async () => {
    assert.equal((await agent.terminate()).code, 0)
    await lab.node.must(...agentCommand('--cleanup'))
    const { ours, theirs } = await stateOf(lab.node)
    assert.deepEqual(ours, { servers: [], sets: [], chains: chainsOfOthers(), routes: [], addresses: [] })
    assert.deepEqual(theirs, untouched)
  })
})
