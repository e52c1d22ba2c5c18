// The table over time: a restart, changes by other programs, refusals of the kernel, another owner's layout.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { NfOp, NfSet } from '../../../../src/kernel/index.js'
import { NfElements } from '../../../../src/kernel/index.js'
import { compileRoute, schemaOf } from '../../../../src/modes/nft-table/index.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import {
  countElements,
  inByteOrder,
  modelContent,
  type NftLab,
  openNftLab,
  wantedContent,
} from '../../../support/nft-lab.js'
import { makeNftSettings } from '../../../support/nft-table.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

const { ENOMEM, EINVAL } = constants.errno
const table = { family: 'ipv4', table: 'kube-proxy' } as const
const schema = schemaOf('ipv4')

function service(number: number, ...endpoints: readonly string[]): Route {
  const clusterIP = ip(`10.96.${number >> 8}.${number & 255}`)
  return plainRoute({ service: `default/s${number}`, clusterIP, clusterBackends: backends(80, ...endpoints) })
}

const web = service(1, '10.244.0.1', '10.244.0.2')
const api = service(2, '10.244.0.3')
const sticky = plainRoute({
  service: 'default/sticky',
  clusterIP: ip('10.96.0.50'),
  loadBalancerIPs: [ip('203.0.113.2')],
  sourceRanges: [cidr('192.0.2.0/24')],
  affinitySeconds: 600,
  isExternallyAccessible: true,
  clusterBackends: backends(80, '10.244.0.4', '10.244.0.5'),
})

function assertContent(lab: NftLab, routes: readonly Route[]): void {
  const desired = routes.map((route) => compileRoute(route, lab.settings))
  assert.deepEqual(inByteOrder(modelContent(lab)), inByteOrder(wantedContent(desired, lab.family)))
}

/** The names of all sets and chains. */
function namesOf({ nftables }: NftLab): readonly string[] {
  const model = nftables.namespace.tables.ipv4.get('kube-proxy')
  return [...(model?.sets.keys() ?? []), ...(model?.chains.keys() ?? [])].toSorted()
}

function isBusy(op: NfOp): boolean {
  return op.op === 'delete-chain' && op.chain.chain === 'endpoint-ABC'
}

async function written(...routes: readonly Route[]): Promise<NftLab> {
  const lab = openNftLab()
  lab.claim(...routes)
  assert.equal(await lab.write(), true)
  lab.nftables.transactions.length = 0
  return lab
}

describe('the table of nftables mode after a restart', () => {
  it('is adopted without an operation', async () => {
    const { nftables } = await written(web, api, sticky)
    const next = openNftLab({ namespace: nftables.namespace })
    next.claim(web, api, sticky)
    assert.equal(await next.write(), true)
    assert.deepEqual(next.nftables.transactions, [])
    assert.equal(await next.tables.look('full'), false)
  })

  it('is adopted without an operation after values went out of use', async () => {
    const lab = await written(web, api, sticky)
    lab.claim(service(1, '10.244.0.2'))
    lab.release(sticky.key)
    await lab.write()
    const next = openNftLab({ namespace: lab.nftables.namespace })
    next.claim(service(1, '10.244.0.2'), api)
    assert.equal(await next.write(), true)
    assert.deepEqual(next.nftables.transactions, [])
    assert.equal(await next.tables.look('full'), false)
    assert.equal(next.tables.isWriteDue, true)
    await next.write()
    assert.deepEqual(namesOf(next), namesOf(await written(service(1, '10.244.0.2'), api)))
  })

  it('keeps the objects of unknown service ports until all objects are known', async () => {
    const { nftables } = await written(web, api, sticky)
    const next = openNftLab({ namespace: nftables.namespace, isComplete: false })
    next.claim(api)
    assert.equal(await next.write(), true)
    assertContent(next, [web, api, sticky])
    next.claim(service(1, '10.244.0.2'))
    await next.write()
    assertContent(next, [service(1, '10.244.0.2'), api, sticky])
    next.complete()
    await next.write()
    assertContent(next, [service(1, '10.244.0.2'), api])
  })

  it('loses elements that belong to no list', async () => {
    const { nftables } = await written(web)
    const { endpoints } = schema.services
    const elements = await nftables.elements(endpoints)
    const [first, second] = [elements.key(0).slice(), elements.key(1).slice()]
    const isFirst = first[12] === 0
    await nftables.apply([
      {
        op: 'delete-elements',
        elements: new NfElements(endpoints).add(isFirst ? first : second, { data: new Uint8Array(8) }),
      },
    ])
    const next = openNftLab({ namespace: nftables.namespace })
    next.claim(web)
    assert.equal(await next.write(), true)
    assertContent(next, [web])
  })
})

/** Elements that the kernel has and no state of ours says. */
describe('elements that belong to nothing', () => {
  const { services } = schema

  it('a count of 0 goes, and does not stop the Service that gets endpoints', async () => {
    const { nftables } = await written(web, service(2))
    const key = (await nftables.elements(services.rejected)).key(0).slice()
    const elements = new NfElements(services.counts).add(key, { data: new Uint8Array(2) })
    await nftables.apply([{ op: 'add-elements', elements }])
    const next = openNftLab({ namespace: nftables.namespace })
    next.claim(web, api)
    assert.equal(await next.write(), true)
    assertContent(next, [web, api])
  })

  it('go with the next write when the kernel refuses the first one', async () => {
    const { nftables } = await written(sticky)
    const other = services.affinityOf(60)
    const key = (await nftables.elements(services.affinityOf(600))).key(0).slice()
    await nftables.apply([
      { op: 'add-set', set: other },
      { op: 'add-elements', elements: new NfElements(other).add(key) },
    ])
    const next = openNftLab({ namespace: nftables.namespace })
    next.nftables.plan = { transactionFault: () => ENOMEM }
    next.claim(sticky)
    assert.equal(await next.write(), false)
    next.nftables.plan = {}
    await next.clock.advance(1000)
    assert.equal(await next.write(), true)
    assert.equal(await next.tables.look('full'), false)
    await next.write()
    assertContent(next, [sticky])
  })
})

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
      change: async () => [{ op: 'flush-set', set: schema.services.counts }],
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
      drift: ['element-unexpected'],
      change: async ({ nftables }) => {
        const { endpoints } = schema.services
        const key = (await nftables.elements(endpoints)).key(0).slice()
        key[12] = 77
        return [
          { op: 'add-elements', elements: new NfElements(endpoints).add(key, { data: new Uint8Array(8) }) },
        ]
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
      assert.equal(await lab.tables.look('suspect'), true)
      assert.equal(lab.log.find('info', 'Kernel state differs and is repaired').length, 1)
      const counted = (await lab.registry.getMetricsAsJSON()).find(
        (metric) => metric.name === 'viaduct_drift_total',
      )
      const kinds = counted?.values
        .filter(({ value }) => value > 0)
        .map(({ labels }) => String(labels['kind']))
      assert.deepEqual(kinds?.toSorted(), drift.toSorted())
      assert.equal(lab.tables.isWriteDue, true)
      assert.equal(await lab.write(), true)
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
    const elements = lab.nftables.elements.bind(lab.nftables)
    lab.nftables.elements = async (set: NfSet) => {
      read.push(set.set)
      return await elements(set)
    }
    const other = new ModelNftables(lab.nftables.namespace)
    await other.apply([{ op: 'flush-set', set: schema.services.counts }])
    lab.tables.noteChanges((await watch.next()) ?? [])
    await lab.tables.look('suspect')
    assert.deepEqual(read, ['service-endpoint-counts'])
    await lab.write()
    await other.apply([{ op: 'add-table', table: { family: 'ipv4', table: 'other' } }])
    assert.equal(lab.tables.noteChanges((await watch.next()) ?? []), false)
    assert.equal(await lab.tables.look('full'), false)
    assert.equal(read.length, 1)
    assert.equal(lab.tables.noteChanges([{ kind: 'overrun' }]), true)
    assert.equal(await lab.tables.look('full'), false)
    assert.ok(read.length > 10)
    await watch.close()
  })

  it('is read again when a write shows that it changed', async () => {
    const lab = await written(web, api)
    const other = new ModelNftables(lab.nftables.namespace)
    await other.apply([{ op: 'flush-set', set: schema.services.endpoints }])
    lab.claim(service(1, '10.244.0.2'))
    assert.equal(await lab.write(), true)
    assertContent(lab, [service(1, '10.244.0.2'), api])
  })

  it('is not touched while another socket owns it', async () => {
    const namespace = openNftLab().nftables.namespace
    const owner = new ModelNftables(namespace)
    await owner.apply([{ op: 'add-table', table: { ...table, flags: ['owner'] } }])
    const lab = openNftLab({ namespace })
    lab.claim(web)
    assert.equal(await lab.write(), false)
    assert.deepEqual(lab.nftables.transactions, [])
    assert.match(lab.log.find('error', '')[0]?.message ?? '', /belongs to another program/)
    assert.equal(lab.tables.isWriteDue, false)
    await owner.close()
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    assert.equal(await lab.write(), true)
    assertContent(lab, [web])
  })
})

describe('the table of nftables mode when the kernel refuses', () => {
  it('leaves out the service port of a refused element, and tries it again', async () => {
    const lab = openNftLab()
    lab.claim(web, api, sticky)
    const refused = Buffer.from(ip('10.96.0.2').split('.').map(Number)).toString('latin1')
    lab.nftables.plan = {
      fault: (op) => {
        if (op.op !== 'add-elements' || op.elements.set.set !== 'service-endpoint-counts') return undefined
        for (let element = 0; element < op.elements.length; element++)
          if (Buffer.from(op.elements.key(element)).toString('latin1').startsWith(refused))
            return { errno: EINVAL, element }
        return undefined
      },
    }
    assert.equal(await lab.write(), true)
    assertContent(lab, [web, sticky])
    assert.match(lab.log.find('error', 'default/s2')[0]?.message ?? '', /EINVAL/)
    assert.deepEqual(lab.tables.dueRoutes(), [])
    await lab.clock.advance(1000)
    assert.deepEqual(lab.tables.dueRoutes(), [api.key])
    lab.nftables.plan = {}
    lab.claim(api)
    assert.equal(await lab.write(), true)
    assertContent(lab, [web, api, sticky])
    assert.equal(lab.log.find('info', 'Programmed again').length, 1)
  })

  it('reads the table again when an answer was lost', async () => {
    const lab = await written(web)
    lab.nftables.plan = { transactionFault: () => 'lost' }
    lab.claim(service(1, '10.244.0.9'))
    assert.equal(await lab.write(), false)
    assert.equal(lab.tables.isBehind, true)
    lab.nftables.plan = {}
    assert.equal(lab.tables.isWriteDue, false)
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    assert.equal(await lab.write(), true)
    assertContent(lab, [service(1, '10.244.0.9')])
  })

  it('fills a set of node addresses that comes back with a large write', async () => {
    const onNode = makeNftSettings('ipv4', { nodePortAddresses: [ip('192.0.2.7')] })
    const lab = openNftLab({ settings: onNode })
    await lab.write()
    lab.tables.setSettings(makeNftSettings())
    await lab.write()
    await lab.tables.look('full')
    await lab.write()
    assert.ok(!namesOf(lab).includes('nodeport-ips'))
    lab.tables.setSettings(onNode)
    const addresses = Array.from({ length: 51_000 }, (_, index) => `10.${index >> 8}.1.${index & 255}`)
    lab.claim(service(1, ...addresses))
    assert.equal(await lab.write(), true)
    assert.equal((await lab.nftables.elements(schema.nodePortIPs)).length, 1)
  })

  it('makes a large table in parts that no packet meets, and goes on after ENOMEM', async () => {
    const lab = openNftLab()
    const endpoints = Array.from({ length: 200 }, (_, index) => `10.244.1.${index + 1}`)
    const routes = Array.from({ length: 300 }, (_, index) => service(index + 1, ...endpoints))
    lab.claim(...routes)
    let sent = 0
    lab.nftables.plan = { transactionFault: () => (++sent === 2 ? ENOMEM : undefined) }
    assert.equal(await lab.write(), false)
    const half = modelContent(lab)
    assert.equal(half['service-endpoints']?.length, 8000)
    const model = lab.nftables.namespace.tables.ipv4.get('kube-proxy')
    assert.equal(model?.chains.has('nat-prerouting'), false)
    await lab.clock.advance(1000)
    assert.equal(await lab.write(), true)
    assertContent(lab, routes)
    const added = lab.nftables.transactions.map((ops) => countElements([ops])['add-elements'])
    assert.deepEqual(added, [8040, 8040, ...Array<number>(6).fill(8040), 4320])
    for (const ops of lab.nftables.transactions.slice(0, -1))
      assert.ok(ops.every((op) => op.op !== 'add-chain' || op.chain.hook === undefined))
  })
})

describe('the table of nftables mode with another layout', () => {
  const vmap: NfSet = { ...table, set: 'service-ips', key: schema.services.counts.key, data: 'verdict' }
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
    assertContent(lab, [web, api])
    const fresh = await written(web, api)
    assert.deepEqual(namesOf(lab), namesOf(fresh))
  })

  it('loses its chains later where the kernel counts them as used for a while', async () => {
    const { namespace } = await foreignNamespace()
    const lab = openNftLab({ namespace })
    lab.claim(web)
    lab.nftables.plan = { fault: (op) => (isBusy(op) ? constants.errno.EBUSY : undefined) }
    assert.equal(await lab.write(), true)
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
      { op: 'add-set', set: { ...schema.services.counts, data: ['mark'] } },
    ])
    const lab = openNftLab({ namespace: other.namespace })
    lab.claim(web)
    assert.equal(await lab.write(), true)
    assertContent(lab, [web])
  })

  const notInUse: readonly (readonly [ours: NfSet, other: Partial<NfSet>])[] = [
    [schema.allowedSources(24), { key: ['ipv4_addr'] }],
    [schema.services.affinityOf(600), { key: ['ipv4_addr'] }],
    [schema.services.sessionAffinity, { data: ['mark'] }],
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
