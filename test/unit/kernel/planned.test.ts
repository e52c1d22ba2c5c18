// The parts of a plan on a kernel in memory: the kernel stays as it is, and reads show the changes of the plan.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { beforeEach, describe, it } from 'node:test'
import { parseIpAddress, type IpAddress } from '../../../src/address.js'
import { IpsetEntryCursor } from '../../../src/kernel/ipset/cursor.js'
import type { IpsetSettings } from '../../../src/kernel/ipset/ipset.js'
import { RealServerCursor } from '../../../src/kernel/ipvs/cursors.js'
import { NfElements } from '../../../src/kernel/nftables/elements.js'
import { packFields } from '../../../src/kernel/nftables/fields.js'
import type { NfSet, NfTransaction } from '../../../src/kernel/nftables/nftables.js'
import { PlannedIpset } from '../../../src/kernel/planned/planned-ipset.js'
import { PlannedIpvs } from '../../../src/kernel/planned/planned-ipvs.js'
import { PlannedNetwork } from '../../../src/kernel/planned/planned-network.js'
import { PlannedNftables } from '../../../src/kernel/planned/planned-nftables.js'
import { plannedSetIndex } from '../../../src/kernel/planned/planned-set-index.js'
import { type ModelKernel, openModelKernel } from '../../model/index.js'

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  assert.ok(address)
  return address
}

let kernel: ModelKernel
beforeEach(() => {
  kernel = openModelKernel()
})

const { EOPNOTSUPP } = constants.errno

const addressesOf = ({ bytes }: NfElements): readonly number[] =>
  [...bytes].filter((_, index) => index % 4 === 3).toSorted((a, b) => a - b)

const entry = (text: string) => ({ address: ip(text) })
const open = (references = new Map<string, number>()): PlannedIpset =>
  new PlannedIpset(kernel.ipset, true, async () => references)
const entriesOf = async (ipset: PlannedIpset, name: string): Promise<readonly string[]> => {
  const cursor = new IpsetEntryCursor(await ipset.entries(name), 'hash:ip')
  return Array.from({ length: cursor.length }, (_, index) => cursor.key(index))
}

describe('nf_tables of a plan', () => {
  const table = { family: 'ipv4', table: 'mine' } as const
  const set: NfSet = { ...table, set: 'ips', key: ['ipv4_addr'] }
  const elements = (...addresses: readonly string[]): NfElements => {
    const made = new NfElements(set)
    for (const address of addresses) made.add(packFields(set.key, [address]))
    return made
  }
  const made: NfTransaction = [
    { op: 'add-table', table },
    { op: 'add-chain', chain: { ...table, chain: 'a' } },
    { op: 'add-set', set },
    { op: 'add-elements', elements: elements('10.0.0.1', '10.0.0.2') },
  ]

  it('shows changed elements, rules with handles, and a new generation', async () => {
    await kernel.nftables.apply(made)
    const planned = new PlannedNftables(kernel.nftables, { isLoaded: true, canProbe: false })
    const generation = await planned.generation()
    const rule = { ...table, chain: 'a', expressions: [] }
    const outcome = await planned.apply([
      { op: 'delete-elements', elements: elements('10.0.0.1') },
      { op: 'add-elements', elements: elements('10.0.0.3') },
      { op: 'add-rule', rule, wantsHandle: true },
      { op: 'insert-rule', rule: { ...rule, comment: 'first' } },
    ])
    assert.deepEqual([outcome.state, outcome.generation], ['applied', generation + 1])
    assert.deepEqual(addressesOf(await planned.elements(set)), [2, 3])
    const rules = await planned.rules({ ...table, chain: 'a' })
    assert.deepEqual(
      rules.map(({ comment }) => comment),
      ['first', undefined],
    )
    assert.equal(rules[1]?.handle, outcome.handles.get(2))
    assert.deepEqual(addressesOf(await kernel.nftables.elements(set)), [1, 2])
    assert.equal(kernel.nftables.transactions.length, 1)
  })

  it('takes a refused transaction back', async () => {
    const planned = new PlannedNftables(kernel.nftables, { isLoaded: true, canProbe: false })
    const outcome = await planned.apply([...made, { op: 'delete-chain', chain: { ...table, chain: 'none' } }])
    assert.deepEqual([outcome.state, outcome.failures[0]?.operation], ['refused', 4])
    assert.deepEqual(await planned.tables('ipv4'), [])
  })

  it('deletes tables, and finds an absent one', async () => {
    await kernel.nftables.apply(made)
    const planned = new PlannedNftables(kernel.nftables, { isLoaded: true, canProbe: false })
    assert.deepEqual([await planned.discardTable(table), await planned.discardTable(table)], [true, false])
    assert.deepEqual(await planned.chains({ family: 'ipv4' }), [])
    assert.equal((await kernel.nftables.tables('ipv4')).length, 1)
  })

  const probes = [
    { canProbe: true, state: 'refused' },
    // The check would load modules.
    { canProbe: false, state: 'applied' },
  ] as const
  for (const { canProbe, state } of probes)
    it(`a dry run is ${state} by an old kernel ${canProbe ? 'that may check it' : 'that is not asked'}`, async () => {
      kernel.nftables.plan = { fault: ({ op }) => (op === 'add-set' ? EOPNOTSUPP : undefined) }
      const planned = new PlannedNftables(kernel.nftables, { isLoaded: true, canProbe })
      const outcome = await planned.apply(made, { isDryRun: true })
      assert.equal(outcome.state, state)
      assert.deepEqual(await kernel.nftables.tables('ipv4'), [])
    })

  it('asks nothing while the module is not loaded', async () => {
    await kernel.nftables.apply(made)
    const planned = new PlannedNftables(kernel.nftables, { isLoaded: false, canProbe: false })
    assert.deepEqual(await planned.tables('ipv4'), [])
    assert.deepEqual(await planned.chains({ family: 'ipv4' }), [])
  })
})

describe('sets of a plan', () => {
  const set: IpsetSettings = {
    name: 'A',
    type: 'hash:ip',
    family: 'ipv4',
    maxElements: 64,
    hashSize: 64,
    hasMarks: false,
    hasComments: false,
  }

  it('swaps the content of a set of the kernel and a planned one', async () => {
    await kernel.ipset.apply([
      { op: 'create-set', set },
      { op: 'add-entry', set, entry: entry('10.0.0.1') },
    ])
    const planned = open()
    const other = { ...set, name: 'B' }
    await planned.apply([
      { op: 'create-set', set: other },
      { op: 'add-entry', set: other, entry: entry('10.0.0.2') },
      { op: 'swap-sets', name: 'A', other: 'B' },
    ])
    assert.deepEqual(
      [await entriesOf(planned, 'A'), await entriesOf(planned, 'B')],
      [['10.0.0.2'], ['10.0.0.1']],
    )
    assert.equal(await planned.number('A', 'ipv4'), await kernel.ipset.number('A', 'ipv4'))
    assert.equal(await planned.number('B', 'ipv4'), plannedSetIndex('B'))
    assert.equal((await kernel.ipset.sets()).length, 1)
  })

  it('keeps a set to which a rule of the plan refers', async () => {
    await kernel.ipset.apply([{ op: 'create-set', set }])
    kernel.ipset.references.set('A', 1)
    const destroy = [{ op: 'destroy-set', name: 'A' }] as const
    const kept = await open(new Map([['A', 1]])).apply(destroy)
    assert.deepEqual(
      kept.failures.map(({ error }) => error.code),
      ['EBUSY'],
    )
    assert.deepEqual((await open().apply(destroy)).failures, [])
  })

  it('has the same numbers as the native code', () => assert.equal(plannedSetIndex('a'), 61_767))
})

describe('virtual servers, routes and links of a plan', () => {
  it('refuses a scheduler that the kernel lacks', async () => {
    const planned = new PlannedIpvs(kernel.ipvs, { isLoaded: true, hasScheduler: (name) => name !== 'rr' })
    const { failures } = await planned.apply([{ op: 'add-virtual-server', server: { key, settings } }])
    assert.deepEqual(
      failures.map(({ error }) => error.code),
      ['ENOENT'],
    )
  })

  const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
  const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
  const real = (text: string) => ({
    key: { address: ip(text), port: 8080 },
    settings: { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 } as const,
  })

  it('shows real servers in order, with the errnos of the kernel', async () => {
    await kernel.ipvs.apply([
      { op: 'add-virtual-server', server: { key, settings } },
      { op: 'add-real-server', server: key, real: real('10.0.0.9') },
    ])
    const planned = new PlannedIpvs(kernel.ipvs, { isLoaded: true, hasScheduler: () => true })
    const { failures } = await planned.apply([
      { op: 'add-real-server', server: key, real: real('10.0.0.10') },
      { op: 'add-real-server', server: key, real: real('10.0.0.9') },
      { op: 'add-virtual-server', server: { key, settings } },
    ])
    assert.deepEqual(
      failures.map(({ index, error }) => [index, error.code]),
      [
        [1, 'EEXIST'],
        [2, 'EEXIST'],
      ],
    )
    const dump = await planned.read([key], { counters: true })
    const reals = new RealServerCursor(dump.realServers)
    assert.deepEqual([reals.address(0), reals.address(1)], ['10.0.0.9', '10.0.0.10'])
    assert.equal((await planned.info()).ipv4VirtualServers, 1)
    assert.equal(new RealServerCursor((await kernel.ipvs.dump('ipv4')).realServers).length, 1)
  })

  it('makes a dummy device that only the plan has, with routes through it', async () => {
    const planned = new PlannedNetwork(kernel.links, kernel.routes)
    const { index } = await planned.addDummy('kube-ipvs0')
    await planned.setUp(index)
    const route = { address: ip('10.96.0.1'), interfaceIndex: index, protocol: 173 }
    assert.deepEqual((await planned.apply([{ op: 'add-route', route }])).failures, [])
    const [again] = (await planned.apply([{ op: 'add-route', route }])).failures
    assert.equal(again?.error.code, 'EEXIST')
    assert.deepEqual(await planned.find('kube-ipvs0'), {
      name: 'kube-ipvs0',
      index,
      kind: 'dummy',
      isUp: true,
    })
    await planned.remove(index)
    const [gone] = (await planned.apply([{ op: 'remove-route', route }])).failures
    assert.equal(gone?.error.code, 'ESRCH')
    assert.equal(await kernel.links.find('kube-ipvs0'), undefined)
  })
})
