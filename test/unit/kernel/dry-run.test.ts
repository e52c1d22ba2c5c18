// The parts of a dry run on a kernel in memory: the kernel stays as it is, and the caller gets the answers that it would give.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { beforeEach, describe, it } from 'node:test'
import { parseIpAddress, type IpAddress } from '../../../src/address.js'
import { KernelError } from '../../../src/errors.js'
import { dryRunConntrack, dryRunRelay } from '../../../src/kernel/dry-run/dry-run-host.js'
import { dryRunIpset } from '../../../src/kernel/dry-run/dry-run-ipset.js'
import { dryRunIpvs } from '../../../src/kernel/dry-run/dry-run-ipvs.js'
import { dryRunNetwork } from '../../../src/kernel/dry-run/dry-run-network.js'
import { dryRunNftables } from '../../../src/kernel/dry-run/dry-run-nftables.js'
import { DryRunXtables } from '../../../src/kernel/dry-run/dry-run-xtables.js'
import type { KernelTransaction } from '../../../src/kernel/dry-run/transaction.js'
import type { Ipset, IpsetSettings } from '../../../src/kernel/ipset/ipset.js'
import { NfElements } from '../../../src/kernel/nftables/elements.js'
import { packFields } from '../../../src/kernel/nftables/fields.js'
import type { Nftables, NfSet, NfTransaction } from '../../../src/kernel/nftables/nftables.js'
import type { BatchOutcome } from '../../../src/kernel/batch.js'
import type { XtListing } from '../../../src/kernel/xtables/listing.js'
import { type ModelKernel, openModelKernel } from '../../model/index.js'

const { EOPNOTSUPP } = constants.errno

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  assert.ok(address)
  return address
}

const errnosOf = ({ failures }: BatchOutcome): readonly (readonly [number, string])[] =>
  failures.map(({ index, error }) => [index, error.code])

let kernel: ModelKernel
let taken: KernelTransaction[]
const take = (transaction: KernelTransaction): void => void taken.push(transaction)
beforeEach(() => {
  kernel = openModelKernel()
  taken = []
})

function openNftables(options: { readonly isLoaded?: boolean; readonly canProbe?: boolean } = {}) {
  return dryRunNftables(kernel, { isLoaded: true, canProbe: false, ...options, take })
}

/** Sets, and a table with these rules. */
function openIpset(rules: readonly string[] = [], isLoaded = true): Ipset {
  return dryRunIpset(kernel.ipset, {
    isLoaded,
    tables: () => Promise.resolve([[{ chain: 'INPUT', policy: 'ACCEPT', rules }]]),
    take,
  })
}

describe('nf_tables in a dry run', () => {
  const table = { family: 'ipv4', table: 'mine' } as const
  const set: NfSet = { ...table, set: 'ips', key: ['ipv4_addr'] }
  const elements = new NfElements(set)
  elements.add(packFields(set.key, ['10.0.0.1']))
  const made: NfTransaction = [
    { op: 'add-table', table },
    { op: 'add-chain', chain: { ...table, chain: 'a' } },
    { op: 'add-set', set },
    { op: 'add-elements', elements },
  ]

  it('takes a transaction, names the handles of its rules, and leaves the kernel', async () => {
    await kernel.nftables.apply(made)
    const { nftables } = openNftables()
    const generation = await nftables.generation()
    const rule = { ...table, chain: 'a', expressions: [] }
    const ops: NfTransaction = [
      { op: 'delete-elements', elements },
      { op: 'add-rule', rule, wantsHandle: true },
      { op: 'add-rule', rule, wantsHandle: true },
    ]
    const outcome = await nftables.apply(ops)
    assert.deepEqual([outcome.state, outcome.generation], ['applied', generation])
    assert.deepEqual([...outcome.handles.keys()], [1, 2])
    assert.notEqual(outcome.handles.get(1), outcome.handles.get(2))
    assert.deepEqual(taken, [{ part: 'nftables', ops }])
    assert.equal((await nftables.elements(set)).length, 1)
    assert.equal(kernel.nftables.transactions.length, 1)
  })

  it('discards a table of the kernel once', async () => {
    await kernel.nftables.apply(made)
    const { nftChains } = openNftables()
    assert.deepEqual(
      [
        await nftChains.discardTable('ipv4', 'mine'),
        await nftChains.discardTable('ipv4', 'mine'),
        await nftChains.discardTable('ipv4', 'none'),
      ],
      [true, false, false],
    )
    assert.deepEqual(taken, [{ part: 'nftables', ops: [{ op: 'delete-table', table }] }])
    assert.equal((await kernel.nftables.tables('ipv4')).length, 1)
  })

  const probes = [
    { canProbe: true, state: 'refused' },
    // The check would load modules.
    { canProbe: false, state: 'applied' },
  ] as const
  for (const { canProbe, state } of probes)
    it(`a check is ${state} by an old kernel ${canProbe ? 'that may be asked' : 'that is not asked'}`, async () => {
      kernel.nftables.plan = { fault: ({ op }) => (op === 'add-set' ? EOPNOTSUPP : undefined) }
      const outcome = await openNftables({ canProbe }).nftables.apply(made, { isDryRun: true })
      assert.equal(outcome.state, state)
      assert.deepEqual(taken, [])
      assert.deepEqual(await kernel.nftables.tables('ipv4'), [])
    })

  it('asks nothing while the module is not loaded', async () => {
    await kernel.nftables.apply(made)
    const { nftables, nftChains } = openNftables({ isLoaded: false })
    assert.deepEqual(await nftables.tables('ipv4'), [])
    assert.deepEqual(await nftables.chains({ family: 'ipv4' }), [])
    assert.deepEqual(await nftChains.list('ipv4'), [])
    const asked: readonly ((of: Nftables) => Promise<unknown>)[] = [
      async (of) => await of.sets(table),
      async (of) => await of.elements(set),
    ]
    for (const ask of asked) await assert.rejects(ask(nftables), { code: 'ENOENT' })
  })
})

describe('a table of x_tables in a dry run', () => {
  const place = { family: 'ipv4', table: 'filter' } as const
  const before: XtListing = [{ chain: 'OUTPUT', policy: 'ACCEPT', rules: [] }]
  const open = (): DryRunXtables =>
    new DryRunXtables({
      place,
      flavour: 'legacy',
      list: () => Promise.resolve(before),
      packets: () => assert.fail('the counters are read'),
      take,
    })
  const ops = [{ op: 'set-chain', chain: 'KUBE-A', rules: [] }] as const

  it('reads the table again after a read that failed', async () => {
    let reads = 0
    const table = new DryRunXtables({
      place,
      flavour: 'legacy',
      list: async () => {
        if (reads++ === 0) throw new KernelError({ errno: 11, subsystem: 'xtables', operation: 'read' })
        return await Promise.resolve(before)
      },
      packets: () => assert.fail('the counters are read'),
      take,
    })
    await assert.rejects(table.apply(ops), { code: 'EAGAIN' })
    assert.equal((await table.apply([])).isWritten, true)
    await table.check()
    assert.equal(reads, 2)
  })

  it('takes the staged operations too, once', async () => {
    const table = open()
    await table.stage(ops)
    assert.equal(await table.check(), false)
    assert.equal((await table.apply([])).isWritten, true)
    assert.equal((await table.apply(ops)).isWritten, false)
    assert.equal(await table.check(), true)
    const after = [...before, { chain: 'KUBE-A', rules: [] }]
    assert.deepEqual(taken, [{ part: 'xtables', place, flavour: 'legacy', ops, prune: [], before, after }])
    assert.deepEqual(await table.listing(), after)
  })
})

describe('sets in a dry run', () => {
  const set: IpsetSettings = {
    name: 'A',
    type: 'hash:ip',
    family: 'ipv4',
    maxElements: 64,
    hashSize: 64,
    hasMarks: false,
    hasComments: false,
  }
  const destroy = [{ op: 'destroy-set', name: 'A' }] as const

  it('a set is not destroyed if a rule uses it after the transactions', async () => {
    await kernel.ipset.apply([{ op: 'create-set', set }])
    kernel.ipset.references.set('A', 1)
    const kept = await openIpset(['-m set --match-set A src -j DROP']).apply(destroy)
    assert.deepEqual(errnosOf(kept), [[0, 'EBUSY']])
    assert.deepEqual(taken, [])
    // A transaction has removed the rule.
    assert.deepEqual(errnosOf(await openIpset().apply(destroy)), [])
    assert.deepEqual(taken, [{ part: 'ipset', ops: destroy }])
    assert.equal((await kernel.ipset.sets()).length, 1)
  })

  it('a set is destroyed once, and only if it is there', async () => {
    await kernel.ipset.apply([{ op: 'create-set', set }])
    const outcome = await openIpset().apply([
      ...destroy,
      ...destroy,
      { op: 'create-set', set: { ...set, name: 'B' } },
      { op: 'rename-set', name: 'B', to: 'C' },
      { op: 'destroy-set', name: 'B' },
      { op: 'destroy-set', name: 'C' },
    ])
    assert.deepEqual(errnosOf(outcome), [
      [1, 'ENOENT'],
      [4, 'ENOENT'],
    ])
  })

  it('ipset is not asked while its module is not loaded', async () => {
    await kernel.ipset.apply([{ op: 'create-set', set }])
    const ipset = openIpset([], false)
    assert.deepEqual(await ipset.sets(), [])
    await assert.rejects(ipset.entries('A'), { code: 'ENOENT' })
    await assert.rejects(ipset.number('A', 'ipv4'), { code: 'ENOENT' })
  })
})

describe('IPVS in a dry run', () => {
  const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
  const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
  const add = [{ op: 'add-virtual-server', server: { key, settings } }] as const

  it('takes what the kernel has a scheduler for', async () => {
    const open = (hasRr: boolean) =>
      dryRunIpvs(kernel.ipvs, { isLoaded: true, hasScheduler: () => hasRr, take })
    assert.deepEqual(errnosOf(await open(false).apply(add)), [[0, 'ENOENT']])
    assert.deepEqual(taken, [])
    assert.deepEqual(errnosOf(await open(true).apply(add)), [])
    assert.deepEqual(taken, [{ part: 'ipvs', ops: add }])
    assert.equal((await kernel.ipvs.dump('ipv4')).virtualServers.length, 0)
  })

  it('is empty while the module is not loaded, with the time-outs that it will have', async () => {
    await kernel.ipvs.apply(add)
    const ipvs = dryRunIpvs(kernel.ipvs, { isLoaded: false, hasScheduler: () => true, take })
    assert.equal((await ipvs.dump('ipv4')).virtualServers.length, 0)
    assert.equal((await ipvs.info()).ipv4VirtualServers, 0)
    await ipvs.setTimeouts({ tcpSeconds: 0, tcpFinSeconds: 0, udpSeconds: 60 })
    assert.deepEqual(await ipvs.timeouts(), { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 })
    assert.equal(taken.length, 1)
  })
})

describe('links and routes in a dry run', () => {
  it('a device that a transaction made is found, and routes through it have its name', async () => {
    const { links, routes } = dryRunNetwork(kernel, take)
    const { index } = await links.addDummy('kube-ipvs0')
    await assert.rejects(links.addDummy('kube-ipvs0'), { code: 'EEXIST' })
    await links.setUp(index)
    const route = { address: ip('10.96.0.1'), interfaceIndex: index, protocol: 173 }
    await routes.apply([{ op: 'add-route', route }])
    assert.equal((await links.find('kube-ipvs0'))?.index, index)
    assert.equal((await routes.dumpAddresses('ipv4', index)).length, 0)
    assert.deepEqual(
      taken.map((each) => (each.part === 'routes' ? each.links.at(-1)?.name : each)),
      [
        { part: 'links', op: 'add-dummy', name: 'kube-ipvs0' },
        { part: 'links', op: 'set-up', name: 'kube-ipvs0' },
        'kube-ipvs0',
      ],
    )
    assert.equal(await kernel.links.find('kube-ipvs0'), undefined)
  })

  it('routes get the answers of the kernel that has the others', async () => {
    const route = { address: ip('10.96.0.1'), interfaceIndex: 1, protocol: 173 }
    await kernel.routes.apply([{ op: 'add-route', route }])
    const { routes } = dryRunNetwork(kernel, take)
    const outcome = await routes.apply([
      { op: 'add-route', route },
      { op: 'replace-route', route },
      { op: 'remove-route', route },
      { op: 'remove-route', route },
      { op: 'add-route', route },
    ])
    assert.deepEqual(errnosOf(outcome), [
      [0, 'EEXIST'],
      [3, 'ESRCH'],
    ])
    assert.equal(taken[0]?.part === 'routes' ? taken[0].ops.length : undefined, 3)
  })

  it('addresses bring their routes', async () => {
    const { routes } = dryRunNetwork(kernel, take)
    const address = { address: ip('10.96.0.1'), prefixLength: 32, interfaceIndex: 1 }
    const route = { address: ip('10.96.0.1'), interfaceIndex: 1, protocol: 2 }
    const outcome = await routes.apply([
      { op: 'remove-address', address },
      { op: 'add-address', address },
      { op: 'add-address', address },
      { op: 'add-route', route },
      { op: 'remove-address', address },
      { op: 'add-route', route },
    ])
    assert.deepEqual(errnosOf(outcome), [
      [0, 'EADDRNOTAVAIL'],
      [2, 'EEXIST'],
      [3, 'EEXIST'],
    ])
  })
})

describe('flows and the relay in a dry run', () => {
  it('a clean-up of flows is taken, and a probe is not', async () => {
    const conntrack = dryRunConntrack(kernel.conntrack, take)
    const frontend = { protocol: 'udp', port: 53, backends: [] } as const
    const [probe, dns] = ['198.51.100.0', '10.96.0.10'].map((address) => ({
      ...frontend,
      address: ip(address),
    }))
    assert.ok(probe !== undefined && dns !== undefined)
    await conntrack.deleteStale('ipv4', [probe], [])
    await conntrack.deleteStale('ipv4', [dns, probe], [])
    assert.deepEqual(taken, [{ part: 'conntrack', family: 'ipv4', frontends: [dns] }])
  })

  it('no listener opens', async () => {
    const relay = dryRunRelay(kernel.relay, take)
    const ops = [{ op: 'remove-service', id: 1, name: 'a' }] as const
    assert.deepEqual(errnosOf(await relay.apply(ops)), [])
    assert.deepEqual(taken, [{ part: 'relay', ops }])
    await relay.close()
    assert.equal(await relay.nextConditions(), undefined)
  })
})
