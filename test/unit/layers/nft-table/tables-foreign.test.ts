// The table beside other programs: changes by them, and another owner's layout.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { ObjectTable } from '../../../../src/layers/objects/index.js'
import { NfElements, type NfOp, type NfSet } from '../../../../src/kernel/index.js'
import { schemaOf } from '../../../../src/layers/nft-table/testing.js'
import { ModelNftables } from '../../../model/nftables.js'
import { type NftLab, openNftLab } from '../../../support/nft-lab.js'
import { api, assertContent, namesOf, service, sticky, web, written } from '../../../support/nft-tables.js'

const table = { family: 'ipv4', table: 'kube-proxy' } as const
const schema = schemaOf('ipv4')

function isBusy(op: NfOp): boolean {
  return op.op === 'delete-chain' && op.chain.chain === 'endpoint-ABC'
}

describe('the table of nftables mode that another program changes', () => {
  const changes: readonly {
    readonly name: string
    readonly drift: readonly string[]
    readonly change: (lab: NftLab) => Promise<readonly NfOp[]>
  }[] = [
    {
      name: 'deletes the table',
      drift: ['chain-missing', 'set-missing', 'elements-changed'],
      change: async () => [{ op: 'delete-table', table }],
    },
    {
      name: 'empties a map',
      drift: ['elements-changed'],
      change: async () => [{ op: 'flush-set', set: schema.services.endpoints.endpointAt(0) }],
    },
    {
      name: 'adds an element to a set',
      drift: ['elements-changed'],
      change: async () => [
        { op: 'add-elements', elements: new NfElements(schema.clusterIPs).add(Uint8Array.of(1, 2, 3, 4)) },
      ],
    },
    {
      name: 'adds an endpoint beyond a list',
      drift: ['elements-changed'],
      change: async ({ nftables }) => {
        const { withCount, endpointAt } = schema.services.endpoints
        const key = (await nftables.elements(withCount(1))).key(0)
        const data = Uint8Array.of(10, 244, 0, 9, 0, 80, 0, 0)
        return [{ op: 'add-elements', elements: new NfElements(endpointAt(1)).add(key, { data }) }]
      },
    },
    {
      name: 'adds an endpoint without an address',
      drift: ['element-unexpected'],
      change: async ({ nftables }) => {
        const { withCount, endpointAt } = schema.services.endpoints
        const key = (await nftables.elements(withCount(1))).key(0)
        const elements = new NfElements(endpointAt(1)).add(key, { data: new Uint8Array(8) })
        return [{ op: 'add-elements', elements }]
      },
    },
    {
      name: 'publishes another number of endpoints too',
      drift: ['element-unexpected'],
      change: async ({ nftables }) => {
        const { withCount } = schema.services.endpoints
        const key = (await nftables.elements(withCount(1))).key(0)
        return [{ op: 'add-elements', elements: new NfElements(withCount(2)).add(key) }]
      },
    },
    {
      name: 'empties a chain',
      drift: ['chain-changed'],
      change: async () => [{ op: 'flush-chain', chain: { ...table, chain: 'services' } }],
    },
    {
      name: 'deletes a base chain',
      drift: ['chain-missing'],
      change: async () => [{ op: 'delete-chain', chain: { ...table, chain: 'nat-output' } }],
    },
  ]
  for (const { name, drift, change } of changes) {
    it(`is repaired: ${name}`, async () => {
      const lab = await written(web, api, sticky)
      const watch = lab.nftables.watch()
      const other = new ModelNftables(lab.nftables.namespace)
      assert.deepEqual((await other.apply(await change(lab))).failures, [])
      assert.equal(lab.tables.noteChanges((await watch.next()) ?? []), true)
      assert.equal(await lab.tables.look('partial'), true)
      assert.equal(lab.tables.isWriteDue, true)
      assert.equal(await lab.write(), true)
      assert.equal(lab.log.find('info', 'Kernel state differs and is repaired').length, 1)
      const counted = (await lab.registry.getMetricsAsJSON()).find(
        (metric) => metric.name === 'viaduct_drift_total',
      )
      const kinds = counted?.values
        .filter(({ value }) => value > 0)
        .map(({ labels }) => String(labels['kind']))
      assert.deepEqual(kinds?.toSorted(), drift.toSorted())
      assertContent(lab, [web, api, sticky])
      assert.equal(await lab.tables.look('full'), false)
      assert.equal(lab.tables.isBehind, false)
      await watch.close()
    })
  }

  it('is read only where it was changed, and not at all when nothing was', async () => {
    const lab = await written(web, api, sticky)
    const watch = lab.nftables.watch()
    const read: string[] = []
    const elements = lab.nftables.elementsOnce.bind(lab.nftables)
    lab.nftables.elementsOnce = async (set: NfSet) => {
      read.push(set.set)
      return await elements(set)
    }
    const other = new ModelNftables(lab.nftables.namespace)
    await other.apply([{ op: 'flush-set', set: schema.services.endpoints.withCount(1) }])
    lab.tables.noteChanges((await watch.next()) ?? [])
    await lab.tables.look('partial')
    assert.deepEqual(read, ['services-with-1'])
    await lab.write()
    await other.apply([{ op: 'add-table', table: { family: 'ipv4', table: 'other' } }])
    assert.equal(lab.tables.noteChanges((await watch.next()) ?? []), false)
    assert.equal(await lab.tables.look('full'), false)
    assert.equal(read.length, 1)
    assert.equal(lab.tables.noteChanges([{ kind: 'overrun' }]), true)
    assert.equal(await lab.compare(), false)
    assert.ok(read.length > 10)
    await watch.close()
  })

  // All frontends were walked twice.
  it('is read without a walk of all frontends, and repaired so', async ({ mock }) => {
    const lab = await written(web, api, sticky)
    const watch = lab.nftables.watch()
    const walks = mock.method(ObjectTable.prototype, 'values')
    const other = new ModelNftables(lab.nftables.namespace)
    await other.apply([{ op: 'flush-chain', chain: { ...table, chain: 'services' } }])
    lab.tables.noteChanges((await watch.next()) ?? [])
    assert.equal(await lab.tables.look('partial'), true)
    assert.equal(await lab.write(), true)
    assert.equal(walks.mock.callCount(), 0)
    lab.tables.noteChanges([{ kind: 'overrun' }])
    await lab.tables.look('full')
    assert.ok(walks.mock.callCount() > 0)
    await watch.close()
  })

  // Each set of a number or of an index was compared with all frontends.
  it('is compared as a whole by as many walks of all frontends with 2 endpoints as with 200', async ({
    mock,
  }) => {
    const walks = mock.method(ObjectTable.prototype, 'values')
    const counts: number[] = []
    for (const size of [2, 200]) {
      const endpoints = Array.from({ length: size }, (_, index) => `10.244.1.${index + 1}`)
      const lab = await written(service(1, ...endpoints), api)
      walks.mock.resetCalls()
      const next = openNftLab({ namespace: lab.nftables.namespace })
      next.claim(service(1, ...endpoints), api)
      assert.equal(await next.write(), true)
      next.tables.noteChanges([{ kind: 'overrun' }])
      assert.equal(await next.compare(), false)
      assert.deepEqual(next.nftables.transactions, [])
      counts.push(walks.mock.callCount())
    }
    assert.equal(counts[0], counts[1])
  })

  it('is read again when a write shows that it changed', async () => {
    const lab = await written(web, api)
    const other = new ModelNftables(lab.nftables.namespace)
    await other.apply([{ op: 'flush-set', set: schema.services.endpoints.endpointAt(0) }])
    lab.claim(service(1, '10.244.0.2'))
    assert.equal(await lab.write(), true)
    // The change is in force, and the rest of the map is compared with the next look.
    assert.equal(lab.tables.isLookWanted, true)
    assert.equal(await lab.tables.look('partial'), true)
    assert.equal(await lab.write(), true)
    assertContent(lab, [service(1, '10.244.0.2'), api])
    assert.equal(lab.tables.isLookWanted, false)
  })

  it('is not touched while another socket owns it', async () => {
    const namespace = openNftLab().nftables.namespace
    const owner = new ModelNftables(namespace)
    await owner.apply([{ op: 'add-table', table: { ...table, flags: ['owner'] } }])
    const lab = openNftLab({ namespace })
    lab.claim(web)
    assert.equal(await lab.write(), false)
    assert.equal(lab.tables.isDenied, true)
    assert.deepEqual(lab.nftables.transactions, [])
    assert.match(lab.log.find('error', '')[0]?.message ?? '', /belongs to another program/)
    assert.equal(lab.tables.isWriteDue, false)
    await owner.close()
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    assert.equal(await lab.write(), true)
    assert.equal(lab.tables.isDenied, false)
    assertContent(lab, [web])
  })
})

describe('the table of nftables mode with another layout', () => {
  const vmap: NfSet = { ...table, set: 'service-ips', key: schema.services.rejected.key, data: 'verdict' }
  const affinity: NfSet = { ...table, set: 'affinity-ABC', key: ['ipv4_addr'] }
  const chain = (name: string) => ({ ...table, chain: name })
  const hook = { type: 'nat', hook: 'prerouting', priority: -100 } as const
  const jump = (from: string, to: string): NfOp => ({
    op: 'add-rule',
    rule: {
      ...chain(from),
      expressions: [{ kind: 'immediate', to: 'verdict', data: { verdict: { code: 'jump', chain: to } } }],
    },
  })

  /** As kube-proxy makes it: two chains of a Service, and the elements that lead there. */
  async function foreignNamespace(): Promise<ModelNftables> {
    const other = new ModelNftables()
    const key = Uint8Array.from([10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0])
    const goTo = { verdict: { code: 'goto', chain: 'service-ABC-default/s1/tcp/' } } as const
    const { failures } = await other.apply([
      { op: 'add-table', table: { ...table, comment: 'rules for kube-proxy' } },
      { op: 'add-chain', chain: { ...chain('nat-prerouting'), hook } },
      ...['services', 'service-ABC-default/s1/tcp/', 'endpoint-ABC'].map((name): NfOp => ({
        op: 'add-chain',
        chain: chain(name),
      })),
      { op: 'add-set', set: { ...schema.clusterIPs, comment: 'other words' } },
      { op: 'add-set', set: vmap },
      { op: 'add-set', set: affinity },
      { op: 'add-elements', elements: new NfElements(vmap).add(key, goTo) },
      {
        op: 'add-elements',
        elements: new NfElements(schema.clusterIPs)
          .add(Uint8Array.of(10, 96, 0, 1))
          .add(Uint8Array.of(10, 96, 0, 99)),
      },
      jump('nat-prerouting', 'services'),
      {
        op: 'add-rule',
        rule: {
          ...chain('services'),
          expressions: [
            { kind: 'payload', to: 0, base: 'network', offset: 16, length: 4 },
            { kind: 'lookup', set: 'service-ips', from: 0, to: 'verdict' },
          ],
        },
      },
      jump('service-ABC-default/s1/tcp/', 'endpoint-ABC'),
    ])
    assert.deepEqual(failures, [])
    return other
  }

  it('is not touched until all objects are known, then replaced, and its objects go', async () => {
    const { namespace } = await foreignNamespace()
    const lab = openNftLab({ namespace, isComplete: false })
    lab.claim(web, api)
    assert.equal(await lab.write(), false)
    assert.deepEqual(lab.nftables.transactions, [])
    assert.equal(lab.tables.nextInMs(), undefined)
    lab.complete()
    assert.equal(await lab.write(), true)
    const [first = []] = lab.nftables.transactions
    const place = (test: (op: NfOp) => boolean): number => first.findIndex(test)
    const rewritten = place((op) => op.op === 'flush-chain' && op.chain.chain === 'services')
    assert.ok(rewritten > place((op) => op.op === 'add-elements'), 'the chains change after the elements')
    const fresh = await written(web, api)
    await lab.cleanUp()
    assertContent(lab, [web, api])
    assert.deepEqual(namesOf(lab), namesOf(fresh))
  })

  it('loses its chains later where the kernel counts them as used for a while', async () => {
    const { namespace } = await foreignNamespace()
    const lab = openNftLab({ namespace })
    lab.claim(web)
    lab.nftables.plan = { fault: (op) => (isBusy(op) ? constants.errno.EBUSY : undefined) }
    assert.equal(await lab.write(), true)
    await lab.cleanUp()
    const model = namespace.tables.ipv4.get('kube-proxy')
    assert.deepEqual(
      [...(model?.chains.keys() ?? [])].filter((name) => /ABC/.test(name)),
      ['endpoint-ABC'],
    )
    assert.equal(lab.tables.isWriteDue, false)
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    lab.nftables.plan = {}
    await lab.write()
    assert.equal(model?.chains.has('endpoint-ABC'), false)
    assert.equal(lab.tables.nextInMs(), undefined)
  })

  it('is made again when a set has the name of ours and another type', async () => {
    const other = new ModelNftables()
    await other.apply([
      { op: 'add-table', table },
      { op: 'add-set', set: { ...schema.services.endpoints.endpointAt(0), data: ['mark'] } },
    ])
    const lab = openNftLab({ namespace: other.namespace })
    lab.claim(web)
    assert.equal(await lab.write(), true)
    assertContent(lab, [web])
  })

  const notInUse: readonly (readonly [ours: NfSet, other: Partial<NfSet>])[] = [
    [schema.allowedSources(24), { key: ['ipv4_addr'] }],
    [schema.services.endpoints.endpointAt(1), { data: ['mark'] }],
    [schema.services.endpoints.withCount(2), { key: ['ipv4_addr'] }],
    [schema.services.endpoints.withOwnChain, { key: ['ipv4_addr'] }],
    [schema.services.endpoints.ownChains, { data: ['mark'] }],
    [schema.clients('SG4OVUJ5RLTW2DEHMZ6JFAGBZM', 'clients of default/sticky:/TCP'), { key: ['ipv4_addr'] }],
  ]
  for (const [ours, type] of notInUse) {
    it(`is made again when nothing needs the set of another type yet: ${ours.set}`, async () => {
      const other = new ModelNftables()
      await other.apply([
        { op: 'add-table', table },
        { op: 'add-set', set: { ...ours, ...type } },
      ])
      const lab = openNftLab({ namespace: other.namespace, isComplete: false })
      lab.claim(web)
      await lab.write()
      lab.claim(sticky)
      lab.complete()
      assert.equal(await lab.write(), true)
      assertContent(lab, [web, sticky])
      const made = lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.get(ours.set)
      assert.deepEqual(made?.set, ours)
    })
  }
})
