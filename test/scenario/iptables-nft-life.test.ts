// iptables mode of the flavour nft over time: what goes into the table of the Services, and what into the shared tables.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { NfOp, NfRule } from '../../src/kernel/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { openModelKernel } from '../model/index.js'
import { NftModeLab, type NftModeLabOptions, nftLines } from '../support/nft-mode-lab.js'
import { port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip } from '../support/pipeline-lab.js'

const listed: ObjectEvent = { type: 'listed' }
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]
const checked = [
  set(
    service('checked', '10.96.0.3', {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 31_000,
      ports: [port(80, { nodePort: 30_080 })],
    }),
  ),
  set(slice('checked-1', 'checked', ['10.3.0.1'])),
]
const services = { family: 'ipv4', table: 'kube-proxy' } as const
const nat = { family: 'ipv4', table: 'nat' } as const
const filter = { family: 'ipv4', table: 'filter' } as const

function open(options: NftModeLabOptions = {}): NftModeLab {
  return new NftModeLab({ ...options, mode: 'iptables' })
}

async function started(...events: readonly ObjectEvent[]): Promise<NftModeLab> {
  const lab = open()
  await lab.deliver(...events, synced)
  return lab
}

/** Lines of the IPv4 tables with all of these texts. */
function find(lab: NftModeLab, ...texts: readonly string[]): readonly string[] {
  const lines = nftLines(lab.namespace).filter((line) => / ip (?:kube-proxy|nat|filter)\b/u.test(line))
  return lines.filter((line) => texts.every((text) => line.includes(text)))
}

/** The tables of the transactions since this number of writes, one list per transaction. */
function tablesSince(lab: NftModeLab, writes: number): readonly string[] {
  return lab.kernel.nftables.transactions.slice(writes).map((ops) => {
    const tables = ops.flatMap((op) => Object.values(op).flatMap((part) => tableOf(part)))
    return [...new Set(tables)].join(' ')
  })
}

function tableOf(part: unknown): readonly string[] {
  if (typeof part !== 'object' || part === null) return []
  if ('set' in part && typeof part.set === 'object') return tableOf(part.set)
  return 'family' in part && 'table' in part ? [`${String(part.family)} ${String(part.table)}`] : []
}

/** Time in which the watch opens, and compares once. */
const watchMs = 2000

describe('iptables mode of the flavour nft', () => {
  it('writes the fixed chains before the table of the Services, each table once', async () => {
    const lab = await started(...web)
    assert.deepEqual(
      tablesSince(lab, 0).filter((table) => table.startsWith('ipv4')),
      ['ipv4 nat', 'ipv4 filter', 'ipv4 kube-proxy'],
    )
    for (const chain of ['KUBE-MARK-MASQ', 'KUBE-POSTROUTING', 'KUBE-SERVICES', 'KUBE-PROXY-CANARY'])
      assert.equal(find(lab, `add chain ip nat ${chain}`).length, 1, chain)
    assert.deepEqual(find(lab, 'add rule ip nat KUBE-SERVICES'), [])
    assert.equal(find(lab, 'add element', ' service-endpoint-', '10.96.0.1').length, 2)
    await lab.stop()
  })

  it('writes a change of endpoints in one transaction, and none in the shared tables', async () => {
    const lab = await started(...web, ...shop)
    await lab.clock.advance(watchMs)
    const { writes } = lab
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.3'])))
    await lab.deliver(remove('Service', 'shop'))
    await lab.clock.advance(watchMs)
    assert.deepEqual(tablesSince(lab, writes), ['ipv4 kube-proxy', 'ipv4 kube-proxy'])
    assert.deepEqual(find(lab, '10.96.0.2'), [])
    await lab.stop()
  })

  it('leaves a quiet time between the transactions of two changes, and delays no first one', async () => {
    const lab = await started(...web)
    await lab.clock.advance(watchMs)
    const { writes } = lab
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.3'])))
    assert.equal(lab.writes - writes, 1)
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.4'])))
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.5'])))
    await lab.clock.advance(99)
    assert.equal(lab.writes - writes, 1)
    await lab.clock.advance(1)
    assert.equal(lab.writes - writes, 2)
    assert.deepEqual(find(lab, 'add element', ' service-endpoint-').length, 1)
    await lab.stop()
  })

  it('makes the deleted table of one family again in the quiet time after a change of the other one', async () => {
    const lab = await started(...web)
    await lab.clock.advance(watchMs)
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.3'])))
    const before = nftLines(lab.namespace).toSorted()
    await lab.asOther({ op: 'delete-table', table: { ...services, family: 'ipv6' } })
    await lab.clock.advance(1)
    assert.deepEqual(nftLines(lab.namespace).toSorted(), before)
    await lab.stop()
  })

  it('lets health checks in, in table filter', async () => {
    const lab = await started(...web, ...checked)
    assert.equal(find(lab, 'add rule ip filter KUBE-NODEPORTS', 'accept').length, 1)
    await lab.clock.advance(watchMs)
    const { writes } = lab
    await lab.deliver(remove('Service', 'checked'))
    await lab.clock.advance(watchMs)
    assert.deepEqual(find(lab, 'add rule ip filter KUBE-NODEPORTS'), [])
    assert.deepEqual(tablesSince(lab, writes), ['ipv4 filter', 'ipv4 kube-proxy'])
    await lab.stop()
  })

  it('keeps everything in the kernel when it stops, and a restart writes nothing', async () => {
    const former = await started(...web, ...checked)
    await former.stop()
    const before = nftLines(former.namespace)
    const lab = open({ nftNamespace: former.namespace })
    await lab.deliver(...web, ...checked, synced)
    await lab.clock.advance(65_000)
    assert.deepEqual(lab.writtenSince(0), [])
    assert.deepEqual(nftLines(lab.namespace), before)
    assert.deepEqual(lab.log.find('info', 'Kernel state differs'), [])
    await lab.stop()
  })

  const repairs: readonly { readonly name: string; readonly ops: readonly NfOp[]; readonly table: string }[] =
    [
      {
        name: 'a chain of the table of the Services',
        ops: [flushed(services, 'service-traffic')],
        table: 'ipv4 kube-proxy',
      },
      { name: 'a fixed chain in nat', ops: [flushed(nat, 'KUBE-MARK-MASQ')], table: 'ipv4 nat' },
      { name: 'the jumps in a chain of the kernel', ops: [flushed(filter, 'FORWARD')], table: 'ipv4 filter' },
    ]
  for (const { name, ops, table } of repairs) {
    it(`repairs ${name}, and writes no other table`, async () => {
      const lab = await started(...web)
      await lab.clock.advance(watchMs)
      const before = nftLines(lab.namespace)
      const { writes } = lab
      await lab.asOther(...ops)
      await lab.clock.advance(1000)
      assert.deepEqual(nftLines(lab.namespace), before)
      assert.deepEqual(tablesSince(lab, writes), [table])
      await lab.stop()
    })
  }

  it('looks at no table when another program changes only its own chains', async () => {
    const lab = await started(...web)
    await lab.clock.advance(watchMs)
    const { nftables } = lab.kernel
    const rules = nftables.rules.bind(nftables)
    let reads = 0
    nftables.rules = async (scope) => {
      reads++
      return await rules(scope)
    }
    await lab.asOther({ op: 'add-chain', chain: { ...nat, chain: 'CNI-DN-1' } })
    await lab.clock.advance(1000)
    assert.equal(reads, 0)
    await lab.stop()
  })
})

/** kube-proxy's chains in table nat, with a rule that serves. */
const kubeProxy: readonly NfOp[] = [
  { op: 'add-table', table: nat },
  {
    op: 'add-chain',
    chain: { ...nat, chain: 'PREROUTING', hook: { type: 'nat', hook: 'prerouting', priority: -100 } },
  },
  { op: 'add-chain', chain: { ...nat, chain: 'KUBE-SERVICES' } },
  { op: 'add-chain', chain: { ...nat, chain: 'KUBE-SVC-AAAAAAAAAAAAAAAA' } },
  { op: 'add-chain', chain: { ...nat, chain: 'MINE' } },
  { op: 'add-rule', rule: jump('KUBE-SERVICES', 'KUBE-SVC-AAAAAAAAAAAAAAAA') },
  { op: 'add-rule', rule: jump('PREROUTING', 'MINE') },
  { op: 'add-rule', rule: jump('PREROUTING', 'KUBE-SERVICES') },
]

function jump(chain: string, to: string): NfRule {
  return {
    ...nat,
    chain,
    expressions: [{ kind: 'immediate', to: 'verdict', data: { verdict: { code: 'jump', chain: to } } }],
  }
}

describe('the takeover of iptables mode of the flavour nft', () => {
  it('removes the chains of kube-proxy when the table of the Services is in force, and no others', async () => {
    const lab = open()
    await lab.asOther(...kubeProxy)
    await lab.deliver(...web, synced)
    assert.deepEqual(find(lab, 'KUBE-SVC-'), [])
    assert.equal(find(lab, 'PREROUTING', 'jump MINE').length, 1)
    const tables = tablesSince(lab, 0).filter((table) => table.startsWith('ipv4'))
    const serves = tables.indexOf('ipv4 kube-proxy')
    const isBefore = lab.kernel.nftables.transactions
      .slice(0, serves)
      .every((ops) => ops.every((op) => op.op !== 'delete-chain'))
    assert.ok(serves > 0 && isBefore, tables.join())
    await lab.stop()
  })

  it('keeps the chains of kube-proxy while some objects are unknown', async () => {
    const lab = open()
    await lab.asOther(...kubeProxy)
    await lab.deliver(...web, listed)
    assert.equal(find(lab, 'KUBE-SERVICES', 'jump KUBE-SVC-').length, 1)
    assert.equal(find(lab, 'PREROUTING', 'jump KUBE-SERVICES').length, 1)
    assert.equal(find(lab, 'add element', ' service-endpoint-', '10.96.0.1').length, 2)
    await lab.deliver(synced)
    // The quiet times after the first transactions.
    await lab.clock.advance(200)
    assert.deepEqual(find(lab, 'KUBE-SVC-'), [])
    await lab.stop()
  })

  for (const [from, to] of [
    ['nftables', 'iptables'],
    ['iptables', 'nftables'],
  ] as const) {
    it(`leaves of ${from} mode what a fresh start of ${to} mode writes`, async () => {
      const former = new NftModeLab({ mode: from })
      await former.deliver(...web, synced)
      await former.stop()
      const lab = new NftModeLab({ mode: to, nftNamespace: former.namespace })
      await lab.deliver(...web, synced)
      await lab.clock.advance(65_000)
      const fresh = new NftModeLab({ mode: to })
      await fresh.deliver(...web, synced)
      const ofServices = (each: NftModeLab): readonly string[] => find(each, ' ip kube-proxy')
      assert.deepEqual(ofServices(lab), ofServices(fresh))
      assert.equal(find(lab, 'jump KUBE-SERVICES').length, find(fresh, 'jump KUBE-SERVICES').length)
      await Promise.all([lab.stop(), fresh.stop()])
    })
  }
})

describe('settings of iptables mode of the flavour nft', () => {
  it('follow the addresses that serve node ports, without a write in the shared tables', async () => {
    const kernel = openModelKernel()
    const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
    const lab = open({ kernel, config: { nodePortAddresses: ['192.0.2.0/24'] } })
    await lab.deliver(...web, synced)
    await lab.clock.advance(watchMs)
    const { writes } = lab
    const address = { address: ip('192.0.2.7'), prefixLength: 24, interfaceIndex }
    await kernel.routes.apply([{ op: 'add-address', address }])
    await lab.clock.advance(100)
    assert.equal(find(lab, 'add element', ' nodeport-ips ', '192.0.2.7').length, 1)
    assert.deepEqual(tablesSince(lab, writes), ['ipv4 kube-proxy'])
    await lab.stop()
  })

  it('route packets of loopback addresses only when node ports are on them', async () => {
    for (const localhostNodePorts of [true, false]) {
      const lab = open({ config: { iptables: { localhostNodePorts } } })
      await lab.deliver(...web, synced)
      const value = await lab.kernel.sysctl.read('net/ipv4/conf/all/route_localnet')
      assert.equal(value, localhostNodePorts ? '2' : '0')
      assert.equal(find(lab, 'add chain ip filter KUBE-FIREWALL').length, localhostNodePorts ? 1 : 0)
      await lab.stop()
    }
  })
})

describe('iptables mode of the flavour nft reports', () => {
  it('the packets of its counting rules', async () => {
    const lab = await started(...web)
    const { localhostAccepted, invalidDropped } = (await lab.synchronizer.countPackets()) ?? {}
    assert.deepEqual([localhostAccepted, invalidDropped], [0, 0])
    await lab.stop()
  })

  it('a failed transaction as a failed restore', async () => {
    const lab = await started(...web)
    await lab.clock.advance(watchMs)
    lab.kernel.nftables.plan = { transactionFault: () => constants.errno.ENOMEM }
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.9'])))
    const text = await lab.registry.metrics()
    assert.match(text, /iptables_restore_failures_total\{ip_family="IPv4"\} 1/u)
    lab.kernel.nftables.plan = {}
    await lab.clock.advance(2000)
    assert.equal(find(lab, 'add element', ' service-endpoint-', '10.1.0.9').length, 1)
    await lab.stop()
  })

  it('refused first transactions less and less often, and begins when the kernel takes one', async () => {
    const lab = open()
    lab.kernel.nftables.plan = { transactionFault: () => constants.errno.ENOMEM }
    await lab.deliver(...web, synced)
    await lab.clock.advance(60_000)
    const { length } = lab.kernel.nftables.transactions
    assert.ok(length <= 20, `${length} transactions of two families in a minute`)
    lab.kernel.nftables.plan = {}
    await lab.clock.advance(30_000)
    assert.equal(find(lab, 'add element', ' service-endpoint-', '10.1.0.1').length, 1)
    await lab.stop()
  })
})

function flushed(key: { readonly family: 'ipv4'; readonly table: string }, chain: string): NfOp {
  return { op: 'flush-chain', chain: { ...key, chain } }
}
