// The table over time: a restart, and refusals of the kernel.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { NfElements } from '../../../../src/kernel/index.js'
import { schemaOf } from '../../../../src/layers/nft-table/testing.js'
import { countElements, modelContent, openNftLab } from '../../../support/nft-lab.js'
import { makeNftSettings } from '../../../support/nft-table.js'
import { api, assertContent, namesOf, service, sticky, web, written } from '../../../support/nft-tables.js'
import { ip } from '../../../support/routes.js'

const { ENOMEM, EINVAL } = constants.errno
const schema = schemaOf('ipv4')

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
    await next.cleanUp()
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

  it('fills a list that lacks its first endpoint', async () => {
    const { nftables } = await written(web)
    await nftables.apply([{ op: 'flush-set', set: schema.services.endpoints.endpointAt(0) }])
    const next = openNftLab({ namespace: nftables.namespace })
    next.claim(web)
    assert.equal(await next.write(), true)
    assertContent(next, [web])
  })
})

/** Elements that the kernel has and no state of ours says. */
describe('elements that belong to nothing', () => {
  const { services } = schema

  it('an endpoint without an address goes, and does not stop the Service that gets endpoints', async () => {
    const { nftables } = await written(web, service(2))
    const key = (await nftables.elements(services.rejected)).key(0).slice()
    const elements = new NfElements(services.endpoints.endpointAt(0)).add(key, { data: new Uint8Array(8) })
    await nftables.apply([{ op: 'add-elements', elements }])
    const next = openNftLab({ namespace: nftables.namespace })
    next.claim(web, api)
    assert.equal(await next.write(), true)
    assertContent(next, [web, api])
  })

  it('go with the next write when the kernel refuses the first one', async () => {
    const { nftables } = await written(web)
    const other = services.endpoints.withCount(1)
    const key = (await nftables.elements(services.endpoints.withCount(2))).key(0).slice()
    await nftables.apply([
      { op: 'add-set', set: other },
      { op: 'add-elements', elements: new NfElements(other).add(key) },
    ])
    const next = openNftLab({ namespace: nftables.namespace })
    next.nftables.plan = { transactionFault: () => ENOMEM }
    next.claim(web)
    assert.equal(await next.write(), false)
    next.nftables.plan = {}
    await next.clock.advance(1000)
    assert.equal(await next.write(), true)
    assert.equal(await next.tables.look('full'), false)
    await next.write()
    assertContent(next, [web])
  })
})

describe('the table of nftables mode when the kernel refuses', () => {
  it('leaves out the service port of a refused element, and tries it again', async () => {
    const lab = openNftLab()
    lab.claim(web, api, sticky)
    const refused = Buffer.from(ip('10.96.0.2').split('.').map(Number)).toString('latin1')
    lab.nftables.plan = {
      fault: (op) => {
        if (op.op !== 'add-elements' || op.elements.set.set !== 'services-with-1') return undefined
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
    await lab.cleanUp()
    assert.ok(!namesOf(lab).includes('nodeport-ips'))
    lab.tables.setSettings(onNode)
    const addresses = Array.from({ length: 51_000 }, (_, index) => `10.${index >> 8}.1.${index & 255}`)
    lab.claim(service(1, ...addresses))
    assert.equal(await lab.write(), true)
    assert.equal((await lab.nftables.elements(schema.nodePortIPs)).length, 1)
  })

  // One transaction had 8,000 operations, for which other writers waited 256 ms.
  it('makes the sets and chains of a long list in parts, and then leads to them', async () => {
    const lab = await written(web)
    const long = service(
      1,
      ...Array.from({ length: 1000 }, (_, index) => `10.${index >> 8}.1.${index & 255}`),
    )
    lab.claim(long)
    lab.nftables.plan = {
      transactionFault: () => (lab.nftables.transactions.length === 3 ? ENOMEM : undefined),
    }
    assert.equal(await lab.write(), false)
    assertContent(lab, [web])
    lab.nftables.plan = {}
    await lab.clock.advance(1000)
    assert.equal(await lab.write(), true)
    assertContent(lab, [long])
    const sizes = lab.nftables.transactions.map(
      (ops) => ops.filter(({ op }) => !op.endsWith('elements')).length,
    )
    assert.ok(sizes.length > 4 && Math.max(...sizes) <= 1000, sizes.join())
    const next = openNftLab({ namespace: lab.nftables.namespace })
    next.claim(long)
    assert.equal(await next.write(), true)
    assert.deepEqual(next.nftables.transactions, [])
  })

  it('makes a large table in parts that no packet meets, and goes on after ENOMEM', async () => {
    const lab = openNftLab()
    const endpoints = Array.from({ length: 200 }, (_, index) => `10.244.1.${index + 1}`)
    const routes = Array.from({ length: 300 }, (_, index) => service(index + 1, ...endpoints))
    lab.claim(...routes)
    let sent = 0
    lab.nftables.plan = { transactionFault: () => (++sent === 3 ? ENOMEM : undefined) }
    assert.equal(await lab.write(), false)
    const half = modelContent(lab)
    assert.equal(half['service-endpoint-0']?.length, 40)
    const model = lab.nftables.namespace.tables.ipv4.get('kube-proxy')
    assert.equal(model?.chains.has('nat-prerouting'), false)
    await lab.clock.advance(1000)
    assert.equal(await lab.write(), true)
    assertContent(lab, routes)
    const added = lab.nftables.transactions.map((ops) => countElements([ops])['add-elements'])
    assert.deepEqual(added, [undefined, 8120, 8120, ...Array<number>(6).fill(8120), 4360])
    for (const ops of lab.nftables.transactions.slice(0, -1))
      assert.ok(ops.every((op) => op.op !== 'add-chain' || op.chain.hook === undefined))
  })
})
