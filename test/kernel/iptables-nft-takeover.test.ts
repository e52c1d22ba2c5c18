// The shipped agent in iptables mode takes over a node whose x_tables live in nf_tables, among chains of other programs, and gives it
// back, while connections are made all the time. `npm run bench -- takeovers` has more pairs, and the real kube-proxy.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { AgentProcess } from '../traffic/agent-process.js'
import { foreignChains } from '../traffic/foreign-chains.js'
import { recordedEndpoints, writeRecordedRules } from '../traffic/reference/recorded-rules.js'
import { assertNoneStale, assertServed, hostPortPaths, SwitchLab } from '../traffic/switch-lab.js'

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

  it('back to kube-proxy, and again to the agent', async () => {
    await lab.publish(recordedEndpoints)
    assertServed(await lab.during(async () => await writeRecordedRules(lab.node, 'nft')))
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
