import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NftChange, NftChangedObject } from '../../../../src/kernel/index.js'
import { OtherAgents } from '../../../../src/layers/nft-table/other-agents.js'
import { ManualClock } from '../../../support/manual-clock.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

function change(object: Partial<NftChangedObject>, program = 'iptables-restor'): NftChange {
  const objects = [{ kind: 'rules', family: 'ipv4', table: 'nat', name: 'KUBE-SERVICES', ...object } as const]
  return { kind: 'transaction', generation: 7, pid: 42, program, objects }
}

const ofService = change({ kind: 'chain', name: 'KUBE-SVC-AAAABBBBCCCCDDDD' })

/** The log after these changes, each at its time in seconds. The other agents are asked for after each, and at the end. */
async function after(
  changes: readonly (readonly [seconds: number, change: NftChange])[],
  endSeconds: number,
  mode: 'ipvs' | 'table' = 'table',
): Promise<{ readonly isActive: boolean; readonly lines: readonly string[]; readonly log: MemoryLog }> {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const others = new OtherAgents({ family: 'ipv4', mode, minSyncPeriodMs: 0, clock, log })
  for (const [seconds, each] of changes) {
    await clock.advance(seconds * 1000 - clock.now())
    others.note([each])
    others.runningNow()
  }
  await clock.advance(endSeconds * 1000 - clock.now())
  const isActive = others.runningNow() === 'kube-proxy'
  return { isActive, lines: log.lines.map(({ level, message }) => `${level} ${message}`), log }
}

describe('a kube-proxy that writes beside the agent', () => {
  const shown: readonly (readonly [name: string, change: NftChange, mode?: 'ipvs'])[] = [
    ['ipvs mode', change({ name: 'KUBE-NODE-PORT' })],
    [
      'ipvs mode, a chain of filter',
      change({ kind: 'chain', table: 'filter', name: 'KUBE-IPVS-OUT-FILTER' }),
    ],
    ['ipvs mode, beside ours', change({ name: 'KUBE-LOAD-BALANCER' }), 'ipvs'],
    [
      'ipvs mode, beside ours, by iptables-nft-restore',
      change({ name: 'KUBE-NODE-PORT' }, 'iptables-nft-re'),
      'ipvs',
    ],
    ['iptables mode, beside our ipvs mode', ofService, 'ipvs'],
    ['iptables mode, a chain of a Service', ofService],
    [
      'iptables mode, a chain of a Service on an older kernel',
      change({ kind: 'chain-update', name: 'KUBE-SVC-AAAABBBBCCCCDDDD' }),
    ],
    [
      'iptables mode, the rules of an endpoint',
      change({ name: 'KUBE-SEP-AAAABBBBCCCCDDDD' }, 'iptables-nft-re'),
    ],
    ['iptables mode, source ranges in filter', change({ table: 'filter', name: 'KUBE-FW-AAAABBBBCCCCDDDD' })],
    [
      'nftables mode',
      change({ kind: 'chain', table: 'kube-proxy', name: 'service-ULMVA6XW-ns1/svc1/tcp/p80' }, 'nft'),
    ],
  ]
  for (const [name, each, mode] of shown) {
    it(`is reported once, at its second sync: ${name}`, async () => {
      const { isActive, lines, log } = await after(
        [
          [0, each],
          [1, each],
          [30, each],
          [60, each],
        ],
        61,
        mode,
      )
      assert.equal(isActive, true)
      assert.equal(lines.length, 1, lines.join('\n'))
      assert.match(
        lines[0] ?? '',
        /^warn Another kube-proxy is running: .* \(pid 42\) changes IPv4 .* again/u,
      )
      const program = each.kind === 'transaction' ? each.program : ''
      assert.deepEqual(log.lines[0]?.fields, { ipFamily: 'IPv4', program, pid: 42 })
    })
  }

  const others: readonly (readonly [name: string, change: NftChange, mode?: 'ipvs'])[] = [
    ['a rule of ipvs mode that a person changes', change({ name: 'KUBE-NODE-PORT' }, 'iptables-nft'), 'ipvs'],
    ['chains of ipvs mode that iptables mode has too', change({}), 'ipvs'],
    ["chains that Viaduct has too, and other programs' rules", change({})],
    ["kubelet's chains", change({ kind: 'chain', table: 'filter', name: 'KUBE-FIREWALL' })],
    ["kubelet's canary", change({ kind: 'chain', table: 'mangle', name: 'KUBE-KUBELET-CANARY' })],
    [
      'chains of Viaduct that another program edits',
      change({ kind: 'chain', table: 'kube-proxy', name: 'service-3' }, 'nft'),
    ],
    ['the other family', change({ family: 'ipv6', kind: 'chain', name: 'KUBE-SVC-AAAABBBBCCCCDDDD' })],
    ['lost events', { kind: 'overrun' }],
  ]
  for (const [name, each, mode] of others) {
    it(`is not seen in ${name}`, async () => {
      const { isActive, lines } = await after(
        [
          [0, each],
          [30, each],
          [60, each],
        ],
        61,
        mode,
      )
      assert.deepEqual([isActive, lines], [false, []])
    })
  }

  it('is not seen in the last sync of one that stops', async () => {
    const { isActive, lines } = await after(
      [
        [0, ofService],
        [1, ofService],
        [4, ofService],
      ],
      5,
    )
    assert.deepEqual([isActive, lines], [false, []])
  })

  it('is not seen in two takeovers', async () => {
    const { isActive, lines } = await after(
      [
        [0, ofService],
        [600, ofService],
      ],
      601,
    )
    assert.deepEqual([isActive, lines], [false, []])
  })

  it('has ended after two minutes without a change, with one line', async () => {
    const { isActive, lines } = await after(
      [
        [0, ofService],
        [30, ofService],
        [60, ofService],
      ],
      180,
    )
    assert.equal(isActive, false)
    assert.deepEqual(lines.slice(1), ['info No other kube-proxy is running any more'])
  })
})

const writes: NftChange = change({ table: 'kube-proxy', name: 'services' }, 'node')
const ofOtherFamily: NftChange = change({ family: 'ipv6', table: 'kube-proxy', name: 'services' }, 'nft')

interface Beside {
  readonly minSyncPeriodMs?: number
  readonly kind?: 'rules' | 'elements'
  /** The content that the look at this second finds. Default: always the same. */
  readonly sampleAt?: (second: number) => string
}

/** The log after looks at these times, in seconds, that each found content of another program. */
async function afterLooks(
  seconds: readonly number[],
  endSeconds: number,
  { minSyncPeriodMs = 0, kind = 'rules', sampleAt = () => '' }: Beside = {},
): Promise<{ readonly running: string; readonly lines: readonly string[] }> {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const others = new OtherAgents({ family: 'ipv4', mode: 'table', minSyncPeriodMs, clock, log })
  for (const each of seconds) {
    await clock.advance(each * 1000 - clock.now())
    others.note([writes, ofOtherFamily])
    others.noteForeign(new Map([['services', { kind, sample: sampleAt(each) }]]))
    others.runningNow()
  }
  await clock.advance(endSeconds * 1000 - clock.now())
  const running = others.runningNow()
  return { running, lines: log.lines.map(({ level, message }) => `${level} ${message}`) }
}

describe('an agent with other rules or elements beside this one', () => {
  for (const kind of ['rules', 'elements'] as const)
    it(`is reported once, with the writer of this family, after 5 s of other ${kind}`, async () => {
      const { running, lines } = await afterLooks([0, 1, 2, 3, 4, 5, 6, 11, 16], 17, { kind })
      assert.equal(running, 'agent')
      assert.equal(lines.length, 1, lines.join('\n'))
      assert.match(
        lines[0] ?? '',
        new RegExp(
          `^warn Another agent is running: node \\(pid 42\\) writes other ${kind} into IPv4 kube-proxy services `,
          'u',
        ),
      )
    })

  it('is gone after two looks without its content', async () => {
    const { running, lines } = await afterLooks([0, 1, 2, 3, 4, 5], 15)
    assert.equal(running, 'none')
    assert.deepEqual(lines.slice(1), ['info No other agent is running any more'])
  })

  it('is not a program that rewrites rules now and then, or a few times', async () => {
    assert.deepEqual((await afterLooks([0, 3, 6, 9, 12, 15], 16)).lines, [])
    assert.deepEqual((await afterLooks([0, 1, 2, 3, 4], 16)).lines, [])
  })

  it('is not an agent with the same objects that writes former endpoints, others each time', async () => {
    const seconds = Array.from({ length: 30 }, (_, second) => second)
    assert.deepEqual((await afterLooks(seconds, 31, { kind: 'elements', sampleAt: String })).lines, [])
  })

  // Before, a gap of 2 s ended the series: with repairs every 10 s no agent was reported.
  it('is reported where repairs are rarer than every 2 s, after three looks, and is gone two looks later', async () => {
    const rare = { minSyncPeriodMs: 10_000 }
    assert.deepEqual((await afterLooks([0, 10], 11, rare)).lines, [])
    const { running, lines } = await afterLooks([0, 10, 20], 39, rare)
    assert.deepEqual([running, lines.length], ['agent', 1])
    assert.equal((await afterLooks([0, 10, 20], 40, rare)).running, 'none')
  })
})
