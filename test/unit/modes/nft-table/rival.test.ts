import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NftChange, NftChangedObject } from '../../../../src/kernel/index.js'
import { Rival } from '../../../../src/modes/nft-table/rival.js'
import { ManualClock } from '../../../support/manual-clock.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

function change(object: Partial<NftChangedObject>, program = 'iptables-restor'): NftChange {
  const objects = [{ kind: 'rules', family: 'ipv4', table: 'nat', name: 'KUBE-SERVICES', ...object } as const]
  return { kind: 'transaction', generation: 7, pid: 42, program, objects }
}

const ofService = change({ kind: 'chain', name: 'KUBE-SVC-AAAABBBBCCCCDDDD' })

/** The log after these changes, each at its time in seconds. The rival is asked after each, and at the end. */
async function after(
  changes: readonly (readonly [seconds: number, change: NftChange])[],
  endSeconds: number,
  mode: 'ipvs' | 'table' = 'table',
): Promise<{ readonly isActive: boolean; readonly lines: readonly string[]; readonly log: MemoryLog }> {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const rival = new Rival({ family: 'ipv4', mode, clock, log })
  for (const [seconds, each] of changes) {
    await clock.advance(seconds * 1000 - clock.now())
    rival.note([each])
    assert.equal(typeof rival.isActiveNow(), 'boolean')
  }
  await clock.advance(endSeconds * 1000 - clock.now())
  const isActive = rival.isActiveNow()
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
