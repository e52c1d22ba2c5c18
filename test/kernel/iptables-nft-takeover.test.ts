// The shipped agent in iptables mode takes over a node whose x_tables live in nf_tables, among chains of other programs, and gives it
// back, while connections are made all the time. `npm run bench -- takeovers` has more pairs, and the real kube-proxy.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'
import type { AgentProcess } from '../traffic/agent-process.js'
import { foreignChains } from '../traffic/foreign-chains.js'
import { recordedEndpoints, writeRecordedRules } from '../traffic/reference/recorded-rules.js'
import { assertNoneStale, assertServed, hostPortPaths, SwitchLab } from '../traffic/switch-lab.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const remaining = recordedEndpoints - 1

const variants = {
  'iptables nft': ['iptables', '--iptables-flavour=nft'],
  'iptables legacy': ['iptables', '--iptables-flavour=legacy'],
  nftables: ['nftables'],
} as const

/** Starts the agent, and waits for its first sync. */
async function start(lab: SwitchLab, variant: keyof typeof variants): Promise<AgentProcess> {
  const [mode, ...flags] = variants[variant]
  const agent = lab.startAgent(mode, ...flags)
  await agent.synced()
  return agent
}

/** As `start`, and waits for the removal of the chains of iptables mode in the other flavour, or those of both. */
async function startAndClean(lab: SwitchLab, variant: keyof typeof variants): Promise<AgentProcess> {
  const agent = await start(lab, variant)
  await agent.line(/Leftovers of iptables mode: removed/u, 0)
  return agent
}

async function stop(agent: AgentProcess): Promise<void> {
  assert.equal((await agent.terminate()).code, 0)
}

function handOver(lab: SwitchLab, ...flags: readonly string[]): Program {
  return lab.node.start(process.execPath, agentFile, 'hand-over', ...flags)
}

async function assertNoCopy(lab: SwitchLab): Promise<void> {
  assert.doesNotMatch(await lab.node.must('nft', 'list', 'tables'), /viaduct/u)
}

/** As kube-proxy in iptables mode when it starts. */
async function deleteTables(lab: SwitchLab): Promise<void> {
  for (const family of ['ip', 'ip6']) await lab.node.must('nft', 'delete', 'table', family, 'kube-proxy')
}

/** Chains for single Services, as kube-proxy has them. */
async function serviceChains(lab: SwitchLab): Promise<readonly string[]> {
  const texts = await Promise.all(
    ['iptables-nft-save', 'ip6tables-nft-save', 'iptables-legacy-save'].map((tool) => lab.node.must(tool)),
  )
  return texts.join('\n').match(/^:KUBE-(?:SVC|SVL|SEP|EXT|FW)-\S+/gmu) ?? []
}

describe('a node with Docker, whose FORWARD drops', { timeout: 120_000 }, () => {
  let lab: SwitchLab
  let agent: AgentProcess
  let foreign: readonly string[]

  before(async () => {
    lab = await SwitchLab.create()
    await lab.publish(recordedEndpoints)
    await writeRecordedRules(lab.node, 'nft')
    await lab.writeForeignChains({ forwardPolicy: 'DROP', markChain: 'KUBE-MARK-MASQ' })
    foreign = await foreignChains(lab.node)
    await lab.startLoad(...hostPortPaths)
  })

  after(async () => await lab.close())

  it("from kube-proxy: its chains are gone, and so is an endpoint that left meanwhile; others' chains stay", async () => {
    assert.notDeepEqual(await serviceChains(lab), [])
    await lab.publish(remaining)
    assertServed(await lab.during(async () => void (agent = await start(lab, 'iptables nft'))))
    const later = await lab.during(async () => {})
    assertServed(later)
    assertNoneStale(later, remaining)
    assert.deepEqual(await serviceChains(lab), [])
    assert.deepEqual(await foreignChains(lab.node), foreign)
    assertServed(await lab.during(async () => await stop(agent)))
  })

  it('a hand-over changes nothing when it ends early: killed, without kube-proxy, or beside another one', async () => {
    const killed = handOver(lab)
    await killed.line((line) => line.includes('start kube-proxy'))
    const second = await lab.node.run(process.execPath, agentFile, 'hand-over')
    assert.equal(second.code, 1)
    assert.match(second.stderr, /^viaduct: another viaduct hand-over runs on this node/u)
    await killed.kill()
    await assertNoCopy(lab)
    const early = await lab.node.run(process.execPath, agentFile, 'hand-over', '--timeout=0.1')
    assert.equal(early.code, 1)
    assert.match(early.stderr, /^viaduct: no rules of kube-proxy in IPv4 and IPv6 after 0.1 s; the table /u)
    await assertNoCopy(lab)
  })

  it('back to kube-proxy, which deletes the table when it starts, by a hand-over; and again to the agent', async () => {
    await lab.publish(recordedEndpoints)
    const counts = await lab.during(async () => {
      const program = handOver(lab, '--timeout=30')
      await program.line((line) => line.includes('stop the agent, then start kube-proxy'))
      await deleteTables(lab)
      // New connections depend on the copy from here on.
      assertServed(await lab.during(async () => {}))
      await writeRecordedRules(lab.node, 'nft')
      const { code, stdout, stderr } = await program.ended
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(
        stdout,
        /^viaduct: kube-proxy has written its rules; the table viaduct-hand-over is deleted$/mu,
      )
    })
    assertServed(counts)
    await assertNoCopy(lab)
    // kube-proxy looks for its jumps by their arguments, and has found those of the agent.
    for (const tool of ['iptables-nft-save', 'ip6tables-nft-save']) {
      const jumps = (await lab.node.must(tool)).match(/^-A [A-Z]+ .*-j KUBE-\S+$/gmu) ?? []
      assert.deepEqual(jumps, [...new Set(jumps)])
    }
    assertServed(await lab.during(async () => void (agent = await start(lab, 'iptables nft'))))
    assert.deepEqual(await serviceChains(lab), [])
    assert.deepEqual((await foreignChains(lab.node)).toSorted(), foreign.toSorted())
    await stop(agent)
  })
})

describe('a node without a policy', { timeout: 120_000 }, () => {
  let lab: SwitchLab
  let agent: AgentProcess
  let foreign: readonly string[]

  before(async () => {
    lab = await SwitchLab.create()
    await lab.publish(recordedEndpoints)
    await writeRecordedRules(lab.node, 'legacy')
    await lab.writeForeignChains({ forwardPolicy: 'ACCEPT', markChain: 'CNI-HOSTPORT-SETMARK' })
    foreign = await foreignChains(lab.node)
    await lab.startLoad()
  })

  after(async () => await lab.close())

  it('from kube-proxy with iptables-legacy: no endpoint is stale', async () => {
    await lab.publish(remaining)
    assertServed(await lab.during(async () => void (agent = await startAndClean(lab, 'iptables nft'))))
    const later = await lab.during(async () => {})
    assertServed(later)
    assertNoneStale(later, remaining)
    assert.deepEqual(await serviceChains(lab), [])
    await stop(agent)
  })

  for (const [variant, back] of [
    ['nftables', start],
    ['iptables legacy', startAndClean],
  ] as const)
    it(`to ${variant}, and back`, async () => {
      assertServed(await lab.during(async () => void (agent = await startAndClean(lab, variant))))
      await stop(agent)
      assertServed(await lab.during(async () => void (agent = await back(lab, 'iptables nft'))))
      await stop(agent)
      assert.deepEqual(await serviceChains(lab), [])
      assert.deepEqual(await foreignChains(lab.node), foreign)
    })
})

describe('viaduct hand-over on a node without the table', { timeout: 30_000 }, () => {
  let node: Namespace
  before(async () => (node = await Namespace.create('node')))
  after(async () => await node.close())

  const cases = [
    [[], 0, /^viaduct: nothing to hand over: /u, /^$/u],
    [
      ['--timeout=soon'],
      2,
      /^$/u,
      /^viaduct: --timeout: "soon" is not a number of seconds above 0 \(see viaduct help hand-over\)$/mu,
    ],
    [['now'], 2, /^$/u, /^viaduct: too many arguments/u],
    [['--bogus'], 2, /^$/u, /^viaduct: unknown option '--bogus'/u],
    [['--help'], 0, /^Usage: viaduct hand-over /mu, /^$/u],
  ] as const
  for (const [words, code, out, err] of cases)
    it(`ends with ${code} for ${words.join(' ') || 'no argument'}`, async () => {
      const run = await node.run(process.execPath, agentFile, 'hand-over', ...words)
      assert.equal(run.code, code)
      assert.match(run.stdout, out)
      assert.match(run.stderr, err)
    })
})
