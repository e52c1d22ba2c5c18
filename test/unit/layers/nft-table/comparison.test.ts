// Comparisons of the table in slices: what a slice reads, and what goes between slices.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { NfElements, type NfOp, type NfSet, packFields } from '../../../../src/kernel/index.js'
import { schemaOf } from '../../../../src/layers/nft-table/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import { type NftLab, openNftLab } from '../../../support/nft-lab.js'
import { api, assertContent, service, web } from '../../../support/nft-tables.js'

const { services } = schemaOf('ipv4')
const { withCount, endpointAt } = services.endpoints

function keyOf(address: string): Uint8Array {
  return packFields(services.rejected.key, [address, 6, 80])
}

function endpoint(last: number): Uint8Array {
  return Uint8Array.of(10, 244, 9, last, 0, 80, 0, 0)
}

function without(set: NfSet, ...addresses: readonly string[]): NfOp {
  const elements = new NfElements(set)
  for (const address of addresses)
    elements.add(keyOf(address), typeof set.data === 'object' ? { data: endpoint(0) } : {})
  return { op: 'delete-elements', elements }
}

function withElement(set: NfSet, address: string, last?: number): NfOp {
  const extras = last === undefined ? {} : { data: endpoint(last) }
  return { op: 'add-elements', elements: new NfElements(set).add(keyOf(address), extras) }
}

/** One endpoint each, so that sets are larger than those that are dumped. */
const many = Array.from({ length: 10_100 }, (_, index) => service(index + 256, '10.244.0.1'))
const [first, second, third] = ['10.96.1.0', '10.96.1.1', '10.96.2.0'] as const

interface Reads {
  /** Sets that were dumped. */
  readonly dumped: string[]
  /** Greatest number of keys of one question. */
  mostKeys: number
}

function watchReads({ nftables }: NftLab): Reads {
  const reads: Reads = { dumped: [], mostKeys: 0 }
  const elements = nftables.elements.bind(nftables)
  const elementsOnce = nftables.elementsOnce.bind(nftables)
  const elementsByKey = nftables.elementsByKey.bind(nftables)
  nftables.elements = async (set) => {
    reads.dumped.push(set.set)
    return await elements(set)
  }
  nftables.elementsOnce = async (set) => {
    reads.dumped.push(set.set)
    return await elementsOnce(set)
  }
  nftables.elementsByKey = async (set, keys) => {
    reads.mostKeys = Math.max(reads.mostKeys, keys.length / keyOf(first).length)
    return await elementsByKey(set, keys)
  }
  return reads
}

async function opened(routes: readonly Route[], sliceCost?: number): Promise<NftLab> {
  const lab = openNftLab(sliceCost === undefined ? {} : { sliceCost })
  lab.claim(...routes)
  assert.equal(await lab.write(), true)
  lab.nftables.transactions.length = 0
  return lab
}

/** Another program changes the table, and no event tells. */
async function change(lab: NftLab, ...ops: readonly NfOp[]): Promise<void> {
  const { failures } = await new ModelNftables(lab.nftables.namespace).apply(ops)
  assert.deepEqual(failures, [])
}

describe('a comparison of the whole table', () => {
  it('lets a change go after each question', async () => {
    const lab = await opened([web, api], 1)
    lab.tables.noteChanges([{ kind: 'overrun' }])
    await lab.tables.look('full')
    let slices = 1
    for (; lab.tables.isComparing; slices++) {
      lab.claim(service(1, `10.244.0.${slices}`))
      assert.equal(await lab.write(), true)
      assert.equal(lab.nftables.transactions.length, slices)
      assert.equal(await lab.tables.look('next'), false)
    }
    assert.ok(slices > 40, String(slices))
    assertContent(lab, [service(1, `10.244.0.${slices - 1}`), api])
  })

  it('asks by key what an interrupted dump lacks, and writes nothing for it', async () => {
    const lab = await opened([web, api])
    const reads = watchReads(lab)
    lab.nftables.plan = { hiddenElements: ({ set }) => (set.startsWith('service') ? 1 : undefined) }
    lab.tables.noteChanges([{ kind: 'overrun' }])
    assert.equal(await lab.compare(), false)
    assert.equal(new Set(reads.dumped).size, reads.dumped.length, 'no dump was made again')
    assert.equal(lab.tables.isWriteDue, false)
  })

  it('finds in an interrupted dump what is missing, has another value, or is strange', async () => {
    const lab = await opened([web, api])
    await change(
      lab,
      without(withCount(1), '10.96.0.2'),
      without(endpointAt(0), '10.96.0.1'),
      withElement(endpointAt(0), '10.96.0.1', 7),
      withElement(endpointAt(1), '10.96.0.2', 8),
    )
    lab.nftables.plan = { hiddenElements: () => 0 }
    assert.equal(await lab.compare(), true)
    assert.equal(await lab.write(), true)
    assertContent(lab, [web, api])
  })

  it('begins with the sets whose number of elements is not the known one', async () => {
    const lab = await opened([web, api])
    const reads = watchReads(lab)
    await change(lab, without(endpointAt(1), '10.96.0.1'))
    assert.equal(await lab.compare(), true)
    assert.equal(reads.dumped[0], 'service-endpoint-1')
    assert.equal(await lab.write(), true)
    assertContent(lab, [web, api])
  })

  it('never dumps a large set, and asks for 1,000 keys at a time', async () => {
    const lab = await opened(many)
    const reads = watchReads(lab)
    lab.tables.noteChanges([{ kind: 'overrun' }])
    assert.equal(await lab.tables.look('full'), false)
    let slices = 1
    for (; lab.tables.isComparing; slices++) assert.equal(await lab.tables.look('next'), false)
    assert.deepEqual(
      reads.dumped.filter((set) => set.startsWith('service')),
      ['service-cidrs'],
    )
    assert.equal(reads.mostKeys, 1000)
    assert.ok(slices >= 20, String(slices))
  })

  it('finds in large sets what is missing, has another value, or is strange', async () => {
    const lab = await opened(many)
    const reads = watchReads(lab)
    await change(
      lab,
      without(withCount(1), first),
      without(endpointAt(0), second),
      withElement(endpointAt(0), second, 7),
      withElement(withCount(1), '10.96.0.77'),
    )
    assert.equal(await lab.compare(), true)
    assert.equal(await lab.write(), true)
    assertContent(lab, many)
    assert.deepEqual(
      reads.dumped.filter((set) => set.startsWith('services-with-')),
      ['services-with-1'],
      'its number of elements was greater than the known one',
    )
    assert.equal(reads.dumped.at(-1), 'services-with-1', 'after all others')
    assert.equal(await lab.compare(), false)
  })
})

/** Takes slices until the comparison reads elements. */
async function toElements(lab: NftLab, reads: Reads): Promise<void> {
  lab.tables.noteChanges([{ kind: 'overrun' }])
  await lab.tables.look('full')
  while (reads.dumped.length === 0) await lab.tables.look('next')
  assert.equal(lab.tables.isComparing, true)
}

describe('another program, while a comparison goes on', () => {
  it('removes an element of a frontend that came after the beginning', async () => {
    const lab = await opened([web, api], 1)
    await toElements(lab, watchReads(lab))
    lab.claim(service(9, '10.244.0.9'))
    assert.equal(await lab.write(), true)
    const watch = lab.nftables.watch()
    await change(lab, without(endpointAt(0), '10.96.0.9'))
    lab.tables.noteChanges((await watch.next()) ?? [])
    await lab.compare('partial')
    assert.equal(await lab.write(), true)
    assertContent(lab, [web, api, service(9, '10.244.0.9')])
    await watch.close()
  })

  it('removes the table with a frontend that came after the beginning', async () => {
    const lab = await opened([web, api], 1)
    await toElements(lab, watchReads(lab))
    lab.claim(service(9, '10.244.0.9'))
    assert.equal(await lab.write(), true)
    const watch = lab.nftables.watch()
    await change(lab, { op: 'delete-table', table: { family: 'ipv4', table: 'kube-proxy' } })
    lab.tables.noteChanges((await watch.next()) ?? [])
    await lab.compare('partial')
    assert.equal(await lab.write(), true)
    assertContent(lab, [web, api, service(9, '10.244.0.9')])
    await watch.close()
  })

  it('removes an endpoint, and one with the same index after it, while the kernel refuses the repair', async () => {
    const lab = await opened([service(1, '10.244.0.1', '10.244.0.2'), service(2, '10.244.0.1', '10.244.0.2')])
    for (const address of ['10.96.0.1', '10.96.0.2']) {
      await change(lab, without(endpointAt(0), address))
      lab.tables.noteChanges([{ kind: 'overrun' }])
      assert.equal(await lab.compare(), true)
      lab.nftables.plan = { transactionFault: () => constants.errno.ENOMEM }
      assert.equal(await lab.write(), false)
      lab.nftables.plan = {}
    }
    await lab.clock.advance(60_000)
    assert.equal(await lab.write(), true)
    assertContent(lab, [service(1, '10.244.0.1', '10.244.0.2'), service(2, '10.244.0.1', '10.244.0.2')])
  })

  it('removes an element of a set that was compared: the set comes next', async () => {
    const lab = await opened([web, api], 1)
    const reads = watchReads(lab)
    await toElements(lab, reads)
    const watch = lab.nftables.watch()
    while (!reads.dumped.includes('service-endpoint-0')) await lab.tables.look('next')
    await change(lab, without(endpointAt(0), '10.96.0.1'))
    lab.tables.noteChanges((await watch.next()) ?? [])
    assert.equal(await lab.tables.look('partial'), true)
    await watch.close()
  })

  it('removes an element of a small set while a large one is asked by key', async () => {
    const lab = await opened([...many, web], 1)
    lab.tables.noteChanges([{ kind: 'overrun' }])
    await lab.tables.look('full')
    const reads = watchReads(lab)
    while (reads.mostKeys === 0) await lab.tables.look('next')
    const watch = lab.nftables.watch()
    await change(lab, without(endpointAt(1), '10.96.0.1'))
    lab.tables.noteChanges((await watch.next()) ?? [])
    assert.equal(await lab.tables.look('partial'), true)
    await lab.compare('partial')
    assert.equal(await lab.write(), true)
    assertContent(lab, [...many, web])
    await watch.close()
  })

  it('removes its own element before this agent does: nothing else is read', async () => {
    const lab = await opened([web, api])
    await change(lab, withElement(withCount(2), '10.96.0.2'))
    lab.tables.noteChanges([{ kind: 'overrun' }])
    assert.equal(await lab.compare(), true)
    const reads = watchReads(lab)
    await change(lab, without(withCount(2), '10.96.0.2'))
    assert.equal(await lab.write(), true)
    assert.deepEqual([reads.dumped, reads.mostKeys], [[], 1])
    assertContent(lab, [web, api])
  })

  it('adds an element to a large set, and the kernel does not count', async () => {
    const lab = await opened(many)
    const sets = lab.nftables.sets.bind(lab.nftables)
    lab.nftables.sets = async (scope) =>
      (await sets(scope)).map(({ attributes, ...each }) => {
        const others = { ...attributes }
        delete others.count
        return { ...each, attributes: others }
      })
    const watch = lab.nftables.watch()
    await change(lab, withElement(endpointAt(0), '10.96.0.79', 3))
    lab.tables.noteChanges((await watch.next()) ?? [])
    assert.equal(await lab.compare('partial'), true)
    assert.equal(await lab.write(), true)
    assertContent(lab, many)
    await watch.close()
  })

  it('removes the table twice, each time before a write', async () => {
    const lab = await opened([web, api])
    const gone: NfOp = { op: 'delete-table', table: { family: 'ipv4', table: 'kube-proxy' } }
    for (let number = 8; number < 11; number++) {
      await change(lab, gone)
      lab.claim(service(number, '10.244.0.9'))
      assert.equal(await lab.write(), true)
      assertContent(lab, [
        web,
        api,
        ...[8, 9, 10].filter((n) => n <= number).map((n) => service(n, '10.244.0.9')),
      ])
    }
  })
})

describe('a change that meets what another program wrote', () => {
  for (const code of ['EEXIST', 'EBUSY'] as const)
    it(`reads what the change is about, by key, after ${code}`, async () => {
      const lab = await opened([...many, web])
      const reads = watchReads(lab)
      await change(lab, withElement(endpointAt(1), third, 9), without(withCount(1), third))
      let isFirst = true
      if (code === 'EBUSY')
        lab.nftables.plan = {
          fault: (op) => {
            const isMap = op.op === 'add-elements' && op.elements.set.set === 'service-endpoint-1'
            if (!isMap || !isFirst) return undefined
            isFirst = false
            return { errno: constants.errno.EBUSY, element: 0 }
          },
        }
      const changed = service(2 * 256, '10.244.0.1', '10.244.0.2')
      lab.claim(changed)
      assert.equal(await lab.write(), true)
      assertContent(
        lab,
        [...many, web].map((route) => (route.key === changed.key ? changed : route)),
      )
      assert.deepEqual([reads.dumped, reads.mostKeys], [[], 1])
    })

  it('reads the sets of the table if one is gone', async () => {
    const lab = await opened([web, api])
    await change(lab, { op: 'delete-table', table: { family: 'ipv4', table: 'kube-proxy' } })
    lab.claim(service(1, '10.244.0.2'))
    assert.equal(await lab.write(), true)
    assertContent(lab, [service(1, '10.244.0.2'), api])
  })
})
