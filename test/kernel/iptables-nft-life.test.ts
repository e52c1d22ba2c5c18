// The shipped agent in iptables mode of the flavour nft, beside rules of another program: what iptables-nft finds, what nft monitor sees
// of a restart, repairs after foreign changes, and the clean-up.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { NftMonitor } from '../support/nft-monitor.js'
import { agentCommand, type AgentProcess } from '../traffic/agent-process.js'
import { assertServed, SwitchLab } from '../traffic/switch-lab.js'

const flags = ['--iptables-flavour=nft', '--iptables-sync-period=1h', '--iptables-localhost-nodeports=false']

/** Rules of another program, as arguments of iptables-nft. */
const foreign = [
  '-t filter -N MINE',
  '-t filter -A FORWARD -s 198.51.100.7 -j MINE',
  '-t nat -A POSTROUTING -s 198.51.100.7 -j MASQUERADE',
]

/** Rules that other programs look for by their arguments. */
const wanted = [
  ['nat', 'PREROUTING', '-m comment --comment', 'kubernetes service portals', '-j KUBE-SERVICES'],
  ['nat', 'POSTROUTING', '-m comment --comment', 'kubernetes postrouting rules', '-j KUBE-POSTROUTING'],
  ['filter', 'FORWARD', '-m comment --comment', 'kubernetes forwarding rules', '-j KUBE-FORWARD'],
] as const

describe('iptables mode of the flavour nft on the kernel', { timeout: 120_000 }, () => {
  let lab: SwitchLab
  let agent: AgentProcess

  before(async () => {
    lab = await SwitchLab.create()
    for (const rule of foreign) await lab.node.must('iptables-nft', ...rule.split(' '))
    agent = lab.startAgent('iptables', ...flags)
    await agent.synced()
    await lab.startLoad()
  })

  after(async () => await lab.close())

  /** Rules and chains without counters. */
  async function save(): Promise<readonly string[]> {
    const lines = (await lab.node.must('iptables-nft-save')).split('\n')
    return lines.filter((line) => !line.startsWith('#')).map((line) => line.replace(/ \[\d+:\d+\]$/u, ''))
  }

  async function keepsForeignRules(): Promise<void> {
    const lines = await save()
    for (const rule of foreign.slice(1))
      assert.ok(lines.includes(rule.replace(/^-t \w+ /u, '').replace('.7 ', '.7/32 ')), rule)
  }

  it('has rules that iptables-nft finds by their arguments, beside those of another program', async () => {
    for (const [table, chain, match, comment, target] of wanted)
      await lab.node.must(
        'iptables-nft',
        '-t',
        table,
        '-C',
        chain,
        ...match.split(' '),
        comment,
        ...target.split(' '),
      )
    await keepsForeignRules()
    assert.deepEqual(
      (await save()).filter((line) => /KUBE-S(?:VC|EP)/u.test(line)),
      [],
    )
    assert.equal(await lab.node.must('sh', '-c', 'cat /proc/net/ip_tables_names 2>/dev/null || true'), '')
  })

  it('writes nothing at a restart', async () => {
    assertServed(
      await lab.during(async () => {
        const monitor = await NftMonitor.open(lab.node)
        assert.equal((await agent.terminate()).code, 0)
        agent = lab.startAgent('iptables', ...flags)
        await agent.synced()
        assert.deepEqual(await monitor.take(), [])
        await monitor.close()
      }),
    )
  })

  it('repairs what another program changes in the shared tables, long before its sync period', async () => {
    const whole = await save()
    for (const change of ['-t nat -F KUBE-MARK-MASQ', '-t filter -D FORWARD 1', '-t nat -F POSTROUTING']) {
      const from = agent.lineCount
      await lab.node.must('iptables-nft', ...change.split(' '))
      await agent.line(
        /"IPv4".*"Kernel state differs and is repaired"|"Kernel state differs and is repaired".*"IPv4"/u,
        from,
      )
      await agent.line(/"Sync done".*"IPv4"|"IPv4".*"Sync done"/u, from)
      if (change.endsWith('-F POSTROUTING'))
        await lab.node.must('iptables-nft', ...(foreign[2] ?? '').split(' '))
      assert.deepEqual((await save()).toSorted(), whole.toSorted(), change)
    }
    await keepsForeignRules()
  })

  // Before, the agent saw a renamed chain only at the next change that named one of its chains.
  it('makes a chain again that another program renames, and leaves the renamed one', async () => {
    const whole = await save()
    const jump = ['-m', 'comment', '--comment', 'kubernetes forwarding rules', '-j', 'OLD']
    const renamed = [
      { table: 'nat', chain: 'KUBE-MARK-MASQ', leftovers: [] },
      { table: 'filter', chain: 'KUBE-FORWARD', leftovers: [['-D', 'FORWARD', ...jump]] },
    ] as const
    for (const { table, chain, leftovers } of renamed) {
      const from = agent.lineCount
      await lab.node.must('iptables-nft', '-t', table, '-E', chain, 'OLD')
      await agent.line(
        /"IPv4".*"Kernel state differs and is repaired"|"Kernel state differs and is repaired".*"IPv4"/u,
        from,
      )
      await agent.line(/"Sync done".*"IPv4"|"IPv4".*"Sync done"/u, from)
      for (const words of [...leftovers, ['-F', 'OLD'], ['-X', 'OLD']])
        await lab.node.must('iptables-nft', '-t', table, ...words)
      assert.deepEqual((await save()).toSorted(), whole.toSorted(), chain)
    }
  })

  it('leaves the rules of others after --cleanup', async () => {
    assert.equal((await agent.terminate()).code, 0)
    await lab.node.must(...agentCommand('--cleanup'))
    assert.deepEqual(
      (await save()).filter((line) => line.includes('KUBE-')),
      [],
    )
    assert.doesNotMatch(await lab.node.must('nft', 'list', 'tables'), /kube-proxy/u)
    await keepsForeignRules()
  })
})
