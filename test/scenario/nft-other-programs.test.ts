// nftables mode beside other programs: those that change its table, and former owners of the table.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type NfOp, NfElements, packFields } from '../../src/kernel/index.js'
import { schemaOf } from '../../src/layers/nft-table/testing.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { openModelKernel } from '../model/index.js'
import { endpointsOf, find, NftModeLab, nftLines } from '../support/nft-mode-lab.js'
import { service, set, slice, synced } from '../support/objects.js'

const listed: ObjectEvent = { type: 'listed' }
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]
const ours = { family: 'ipv4', table: 'kube-proxy' } as const

async function started(...events: readonly ObjectEvent[]): Promise<NftModeLab> {
  const lab = new NftModeLab()
  await lab.deliver(...events, synced)
  return lab
}

describe('another program', () => {
  const { services } = schemaOf('ipv4')
  const key = (vip: string): Uint8Array => packFields(services.rejected.key, [vip, 6, 80])
  const count = (vip: string, number: number): NfElements =>
    new NfElements(services.endpoints.withCount(number)).add(key(vip))
  const changes: readonly { readonly name: string; readonly ops: readonly NfOp[] }[] = [
    { name: 'deletes the table', ops: [{ op: 'delete-table', table: ours }] },
    { name: 'deletes the rules of the table', ops: [{ op: 'flush-table', table: ours }] },
    {
      name: 'deletes the rules of a chain',
      ops: [{ op: 'flush-chain', chain: { ...ours, chain: 'services' } }],
    },
    { name: 'empties a set', ops: [{ op: 'flush-set', set: services.endpoints.endpointAt(0) }] },
    {
      name: 'deletes an element',
      ops: [{ op: 'delete-elements', elements: count('10.96.0.1', 2) }],
    },
    {
      name: 'adds an element',
      ops: [{ op: 'add-elements', elements: new NfElements(services.rejected).add(key('10.96.0.9')) }],
    },
    {
      name: 'moves an element to another set',
      ops: [
        { op: 'delete-elements', elements: count('10.96.0.1', 2) },
        { op: 'add-elements', elements: count('10.96.0.1', 1) },
      ],
    },
    {
      name: 'adds a rule',
      ops: [
        {
          op: 'insert-rule',
          rule: { ...ours, chain: 'services', expressions: [{ kind: 'counter', bytes: 0, packets: 0 }] },
        },
      ],
    },
  ]
  for (const { name, ops } of changes) {
    it(`${name}: it is restored at once`, async () => {
      const lab = await started(...web, ...shop)
      await lab.clock.advance(1000)
      const before = nftLines(lab.namespace)
      await lab.asOther(...ops)
      assert.notDeepEqual(nftLines(lab.namespace), before)
      await lab.clock.advance(500)
      assert.deepEqual(nftLines(lab.namespace), before)
      assert.ok(lab.log.find('info', 'Kernel state differs and is repaired').length > 0)
      await lab.stop()
    })
  }

  it('changes the table while an object cannot be read: it is restored at once', async () => {
    const lab = new NftModeLab()
    await lab.deliver(...web, listed)
    await lab.clock.advance(1000)
    const before = nftLines(lab.namespace)
    await lab.asOther({ op: 'flush-table', table: ours })
    await lab.clock.advance(500)
    assert.deepEqual(nftLines(lab.namespace), before)
    await lab.stop()
  })

  it('changes the table while it cannot be watched: the comparison once a sync period restores it', async () => {
    const kernel = openModelKernel()
    kernel.nftables.watch = () => {
      throw new Error('replaced below')
    }
    const refused = await kernel.nftables.elements(services.rejected).catch((error: unknown) => error)
    kernel.nftables.watch = () => {
      throw refused
    }
    const lab = new NftModeLab({ kernel })
    await lab.deliver(...web, synced)
    assert.equal(lab.log.find('warn', 'nf_tables cannot be watched').length, 1)
    const before = nftLines(lab.namespace)
    await lab.asOther({ op: 'delete-table', table: ours })
    await lab.clock.advance(15_000)
    assert.notDeepEqual(nftLines(lab.namespace), before)
    await lab.clock.advance(15_000)
    assert.deepEqual(nftLines(lab.namespace), before)
    await lab.stop()
  })

  it('changes its own tables a hundred times a second: nothing of ours is read or written', async () => {
    const lab = await started(...web)
    await lab.clock.advance(1000)
    const { writes } = lab
    const reads = countReads(lab)
    const other = { family: 'ipv4', table: 'other' } as const
    for (let round = 0; round < 500; round++) {
      await lab.asOther({ op: 'add-table', table: other })
      await lab.asOther({ op: 'delete-table', table: other })
      await lab.clock.advance(10)
    }
    await lab.clock.advance(60_000)
    assert.deepEqual([lab.writes - writes, reads()], [0, 0])
    await lab.stop()
  })

  it('changes our table all the time: two repairs a second', async () => {
    const lab = await started(...web)
    await lab.clock.advance(1000)
    const { writes } = lab
    for (let round = 0; round < 100; round++) {
      await lab.asOther(
        { op: 'flush-set', set: services.masqueraded },
        { op: 'flush-set', set: services.endpoints.endpointAt(0) },
      )
      await lab.clock.advance(50)
    }
    assert.ok(lab.writes - writes <= 12, String(lab.writes - writes))
    await lab.clock.advance(500)
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2'])
    await lab.stop()
  })

  it('at rest, full comparisons read nothing but the generation', async () => {
    const lab = await started(...web)
    await lab.clock.advance(31_000)
    const reads = countReads(lab)
    await lab.deliver(...shop)
    await lab.clock.advance(120_000)
    assert.equal(reads(), 0)
    await lab.stop()
  })

  // The next full comparison read everything, found chains to remove again, and so on.
  it('after chains were removed, full comparisons read nothing but the generation', async () => {
    const lab = await started(...web)
    await lab.clock.advance(31_000)
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2', '10.1.0.3'])))
    const { writes } = lab
    await lab.clock.advance(31_000)
    assert.ok(lab.writtenSince(writes).some((line) => line.startsWith('delete chain ')))
    const reads = countReads(lab)
    await lab.clock.advance(120_000)
    assert.equal(reads(), 0)
    await lab.stop()
  })
})

/** Counts the listings of sets, elements, chains and rules from now on. */
function countReads(lab: NftModeLab): () => number {
  const { nftables } = lab.kernel
  let reads = 0
  for (const name of ['elements', 'elementsOnce', 'elementsByKey', 'sets', 'chains', 'rules'] as const) {
    const read: (...words: never[]) => Promise<unknown> = nftables[name].bind(nftables)
    Object.assign(nftables, {
      [name]: async (...words: never[]) => {
        reads++
        return await read(...words)
      },
    })
  }
  return () => reads
}

/** All lines of the IPv4 table except the one of the table itself. */
function content(of: NftModeLab): readonly string[] {
  return find(of, '').filter((line) => !line.startsWith('add table'))
}

/** Whether each family is in force and healthy. */
function states(lab: NftModeLab): readonly string[] {
  return lab.synchronizer.views.map(
    ({ health: { family, isHealthy }, isInForce }) => `${family} ${isInForce} ${isHealthy}`,
  )
}

describe('a table that has another owner', () => {
  it("is kube-proxy's, with another layout: it stays while objects are unknown, then one transaction replaces it", async () => {
    const lab = new NftModeLab()
    await lab.asOther(...kubeProxyTable)
    const before = find(lab, '')
    await lab.deliver(...web, listed)
    for (const line of before) assert.ok(find(lab, '').includes(line), line)
    await lab.deliver(synced)
    await lab.clock.advance(1000)
    const fresh = await started(...web)
    assert.deepEqual(content(lab), content(fresh))
    await Promise.all([lab.stop(), fresh.stop()])
  })

  it('with the flag owner: it is reported once, and stays as it is', async () => {
    const lab = new NftModeLab()
    const other = new NftModeLab({ nftNamespace: lab.namespace })
    await other.kernel.nftables.apply([{ op: 'add-table', table: { ...ours, flags: ['owner'] } }])
    await lab.deliver(...web, synced)
    // Nothing is programmed: the family was healthy for a minute, and after a table that was ours for ever. Issue 35, B8.
    assert.deepEqual(states(lab), ['ipv4 false false', 'ipv6 true true'])
    await lab.clock.advance(120_000)
    const table = lab.namespace.tables.ipv4.get('kube-proxy')
    assert.deepEqual([table?.chains.size, table?.sets.size], [0, 0])
    assert.equal(lab.log.find('error', 'Network programming failed').length, 1)
    assert.match(lab.log.find('error', 'Network programming failed')[0]?.message ?? '', /IPv4.*EPERM|owner/u)
    await other.kernel.nftables.close()
    await lab.clock.advance(60_000)
    assert.deepEqual(endpointsOf(lab, '10.96.0.1'), ['10.1.0.1', '10.1.0.2'])
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    assert.deepEqual(states(lab), ['ipv4 true true', 'ipv6 true true'])
    await lab.stop()
  })
})

/** A part of kube-proxy's own table for nftables mode: the objects whose types differ from ours, and base chains that use them. */
const kubeProxyTable: readonly NfOp[] = [
  { op: 'add-table', table: { ...ours, comment: 'rules for kube-proxy' } },
  ...(['service-ips', 'no-endpoint-services', 'firewall-ips'] as const).map((name): NfOp => ({
    op: 'add-set',
    set: { ...ours, set: name, key: ['ipv4_addr', 'inet_proto', 'inet_service'], data: 'verdict' },
  })),
  { op: 'add-set', set: { ...ours, set: 'cluster-ips', key: ['ipv4_addr'], comment: 'Active ClusterIPs' } },
  { op: 'add-chain', chain: { ...ours, chain: 'services' } },
  { op: 'add-chain', chain: { ...ours, chain: 'service-ULMVA6XW-default/web/tcp/' } },
  {
    op: 'add-chain',
    chain: { ...ours, chain: 'nat-prerouting', hook: { type: 'nat', hook: 'prerouting', priority: -100 } },
  },
  {
    op: 'add-rule',
    rule: {
      ...ours,
      chain: 'nat-prerouting',
      expressions: [{ kind: 'immediate', to: 0, data: { verdict: { code: 'jump', chain: 'services' } } }],
    },
  },
]
