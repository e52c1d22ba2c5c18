import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { IpsetHeader, IpsetOp } from '../../../../src/kernel/index.js'
import { openModelKernel, type ModelKernel } from '../../../model/index.js'
import { type DumpedSet, type IpsetBatch, MarkTable } from '../../../../src/layers/ipvs/testing.js'
import { type DesiredSetEntry, IpsetTable, type SetKey, setSpec } from '../../../../src/layers/ipvs/index.js'
import { servicePortKey } from '../../../../src/model/testing.js'
import { ip } from '../../../support/routes.js'

const { EBUSY } = constants.errno
const markMask = 0x107f

type Ipset = ModelKernel['ipset']

function frontend(set: SetKey, address: string, port = 80): DesiredSetEntry {
  return { set, entry: { address: ip(address), protocol: 'tcp', port } }
}

function marked(address: string, mark: number): DesiredSetEntry {
  return {
    set: 'marked',
    entry: { ...frontend('marked', address).entry, mark: { value: mark, mask: markMask } },
  }
}

async function adopt(table: IpsetTable, ipset: Ipset, keepLeftovers = false): Promise<readonly string[]> {
  const headers = new Map((await ipset.sets()).map((header) => [header.name, header]))
  const dumped = new Map<SetKey, DumpedSet>()
  for (const [key, name] of table.names) {
    const header = headers.get(name)
    if (header === undefined) continue
    const isOurs = header.type === setSpec(key).type
    dumped.set(key, { header, entries: isOurs ? await ipset.entries(name) : new Uint8Array() })
  }
  return [...table.adopt(dumped, { keepLeftovers })].map(([kind, count]) => `${kind} ${count}`)
}

/** Applies plans until one is empty. Resolves with the operations. */
async function run(
  table: IpsetTable,
  ipset: Ipset,
  ...plans: (() => IpsetBatch)[]
): Promise<readonly string[]> {
  const done: string[] = []
  for (const plan of plans) {
    for (let batch = plan(); batch.ops.length > 0; batch = plan()) {
      table.confirm(batch, await ipset.apply(batch.ops))
      done.push(...batch.ops.map(({ op }) => op))
    }
  }
  return done
}

async function settled(table: IpsetTable, ipset: Ipset): Promise<readonly string[]> {
  return await run(
    table,
    ipset,
    () => table.planSets(),
    () => table.planAdds(),
    () => table.planDeletes(),
  )
}

async function opened(ipset: Ipset, keepLeftovers = false): Promise<IpsetTable> {
  const table = new IpsetTable('ipv4', markMask)
  await adopt(table, ipset, keepLeftovers)
  return table
}

/** A set with room for two entries that is full. A third entry causes the exchange. */
async function openedSmall(ipset: Ipset): Promise<IpsetTable> {
  const small = { name: 'KUBE-CLUSTER-IP', type: 'hash:ip,port', family: 'ipv4', maxElements: 2 } as const
  const settings = { ...small, hashSize: 64, hasMarks: false, hasComments: false }
  await ipset.apply([{ op: 'create-set', set: settings }])
  const table = await opened(ipset)
  table.want(
    'a',
    [1, 2].map((last) => frontend('clusterIP', `10.96.0.${last}`)),
  )
  await settled(table, ipset)
  return table
}

/** Whether the operation is on the temporary set. */
const isBeside = (op: IpsetOp): boolean => 'set' in op && op.set.name === 'viaduct-ipv4-swap'

/** The operations of one exchange with this number of entries. */
function exchange(entries: number): readonly IpsetOp['op'][] {
  const added = Array.from({ length: entries }, () => 'add-entry' as const)
  return ['destroy-set', 'create-set', ...added, 'swap-sets', 'destroy-set']
}

async function headerOf(ipset: Ipset, name: string): Promise<IpsetHeader | undefined> {
  return (await ipset.sets()).find((header) => header.name === name)
}

describe('the table of sets', () => {
  it('creates all sets, adds the desired entries, and then plans nothing', async () => {
    const { ipset } = openModelKernel()
    const table = await opened(ipset)
    table.want('a', [frontend('clusterIP', '10.96.0.1'), marked('10.97.0.1', 7)])
    const ops = await settled(table, ipset)
    assert.equal(ops.filter((op) => op === 'create-set').length, table.names.size)
    assert.equal(ops.filter((op) => op === 'add-entry').length, 2)
    assert.deepEqual(await settled(table, ipset), [])
    assert.ok(table.isLike(await ipset.sets()))
    const again = await opened(ipset)
    again.want('a', [frontend('clusterIP', '10.96.0.1'), marked('10.97.0.1', 7)])
    assert.deepEqual(await settled(again, ipset), [], 'after a restart')
  })

  it('keeps an entry until no service port needs it', async () => {
    const { ipset } = openModelKernel()
    const table = await opened(ipset)
    const port: DesiredSetEntry = { set: 'nodePortTcp', entry: { port: 30080 } }
    table.want('a', [port])
    table.want('b', [port])
    await settled(table, ipset)
    table.want('a', [])
    assert.deepEqual(await settled(table, ipset), [])
    table.want('b', [])
    assert.deepEqual(await settled(table, ipset), ['delete-entry'])
  })

  it('writes an entry again when its mark changes', async () => {
    const { ipset } = openModelKernel()
    const table = await opened(ipset)
    table.want('a', [marked('10.97.0.1', 7)])
    await settled(table, ipset)
    table.want('a', [marked('10.97.0.1', 8)])
    assert.deepEqual(await settled(table, ipset), ['add-entry'])
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.97.0.1'), port: 80 } as const
    assert.equal(table.markAt(key), 8)
  })

  it('entries from before the start stay until the first sync, except entries that refuse traffic', async () => {
    const { ipset } = openModelKernel()
    const former = await opened(ipset)
    former.want('a', [frontend('externalIP', '10.98.0.1'), frontend('refused', '10.98.0.1')])
    await settled(former, ipset)
    const table = await opened(ipset, true)
    assert.deepEqual(await settled(table, ipset), ['delete-entry'])
    const marksOurs = (protocol: 'tcp' | 'udp'): boolean =>
      table.marksOurs({ family: 'ipv4', protocol, address: ip('10.98.0.1'), port: 80 }, () => false)
    assert.ok(marksOurs('tcp'))
    assert.ok(!marksOurs('udp'))
    table.dropLeftovers()
    assert.deepEqual(await settled(table, ipset), ['delete-entry'])
  })

  it('repairs and counts changes by other programs', async () => {
    const { ipset } = openModelKernel()
    const table = await opened(ipset)
    table.want('a', [frontend('clusterIP', '10.96.0.1'), frontend('clusterIP', '10.96.0.2')])
    await settled(table, ipset)
    const set = await headerOf(ipset, 'KUBE-CLUSTER-IP')
    assert.ok(set !== undefined)
    const settings = { ...set, type: 'hash:ip,port', family: 'ipv4', hashSize: 1024 } as const
    await ipset.apply([
      { op: 'delete-entry', set: settings, entry: frontend('clusterIP', '10.96.0.1').entry },
      { op: 'add-entry', set: settings, entry: frontend('clusterIP', '10.96.0.9').entry },
      { op: 'destroy-set', name: 'KUBE-IPVS-IPS' },
    ])
    assert.ok(!table.isLike(await ipset.sets()))
    assert.deepEqual((await adopt(table, ipset)).toSorted(), [
      'set-entry-missing 1',
      'set-entry-unexpected 1',
      'set-missing 1',
    ])
    assert.deepEqual(await settled(table, ipset), ['create-set', 'add-entry', 'delete-entry'])
  })

  it('a full set is exchanged for a larger one and is complete at any time', async () => {
    const { ipset } = openModelKernel()
    const table = await openedSmall(ipset)
    table.want('b', [frontend('clusterIP', '10.96.0.3')])
    assert.deepEqual(await settled(table, ipset), [...exchange(2), 'add-entry'])
    const header = await headerOf(ipset, 'KUBE-CLUSTER-IP')
    assert.equal(header?.elements, 3)
    assert.equal(header?.maxElements, 65_536)
    assert.equal(await headerOf(ipset, 'viaduct-ipv4-swap'), undefined)
    assert.deepEqual(await settled(table, ipset), [])
  })

  const refusals: readonly (readonly [IpsetOp['op'], readonly string[]])[] = [
    ['create-set', ['destroy-set', 'create-set', 'destroy-set']],
    ['add-entry', ['destroy-set', 'create-set', 'add-entry', 'add-entry', 'destroy-set']],
    ['swap-sets', exchange(2)],
  ]
  for (const [refused, steps] of refusals) {
    it(`an exchange that fails at ${refused} keeps the set and is retried`, async () => {
      const { ipset } = openModelKernel()
      const table = await openedSmall(ipset)
      table.want('b', [frontend('clusterIP', '10.96.0.3')])
      ipset.batches.plan = {
        fault: (op) => (op.op === refused && (isBeside(op) || op.op === 'swap-sets') ? EBUSY : undefined),
      }
      // The set has no room for the missing entry.
      assert.deepEqual(await settled(table, ipset), [...steps, 'add-entry'])
      assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.elements, 2)
      assert.equal(await headerOf(ipset, 'viaduct-ipv4-swap'), undefined)
      assert.deepEqual(
        table.failedSets.map(({ name, failure }) => `${name} ${failure?.error.code}`),
        ['KUBE-CLUSTER-IP EBUSY'],
      )
      assert.deepEqual([...table.gaps.unusable], [])
      assert.deepEqual([...table.gaps.incomplete], ['clusterIP'])
      ipset.batches.plan = {}
      for (const set of table.failedSets) table.retry(set)
      assert.deepEqual(await settled(table, ipset), [...exchange(2), 'add-entry'])
      assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.elements, 3)
    })
  }

  it('a temporary set that another program lists is destroyed later', async () => {
    const { ipset } = openModelKernel()
    const table = await openedSmall(ipset)
    table.want('b', [frontend('clusterIP', '10.96.0.3')])
    let isSwapped = false
    ipset.batches.plan = {
      fault: ({ op }) => {
        isSwapped ||= op === 'swap-sets'
        return isSwapped && op === 'destroy-set' ? EBUSY : undefined
      },
    }
    await settled(table, ipset)
    assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.elements, 3)
    assert.notEqual(await headerOf(ipset, 'viaduct-ipv4-swap'), undefined)
    ipset.batches.plan = {}
    for (const set of table.failedSets) table.retry(set)
    assert.deepEqual(await settled(table, ipset), ['destroy-set'])
    assert.deepEqual(table.failedSets, [])
  })

  it('an exchange without a reply to its swap is settled by a dump', async () => {
    const { ipset } = openModelKernel()
    const table = await openedSmall(ipset)
    const wanted = [1, 2, 3].map((last) => frontend('clusterIP', `10.96.0.${last}`))
    table.want('a', wanted)
    ipset.batches.plan = { fault: ({ op }) => (op === 'swap-sets' ? 'unknown' : undefined) }
    await settled(table, ipset)
    assert.ok(table.isStale)
    assert.deepEqual(table.failedSets, [])
    ipset.batches.plan = {}
    await adopt(table, ipset)
    await settled(table, ipset)
    assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.elements, 3)
    assert.equal(await headerOf(ipset, 'viaduct-ipv4-swap'), undefined)
    assert.ok(table.isLike(await ipset.sets()))
  })

  it('a batch without a reply starts again and does not swap back', async () => {
    const { ipset } = openModelKernel()
    const table = await openedSmall(ipset)
    table.want('b', [frontend('clusterIP', '10.96.0.3')])
    for (let batch = table.planSets(); batch.ops.length > 0; batch = table.planSets()) {
      const outcome = await ipset.apply(batch.ops)
      if (batch.ops[0]?.op === 'swap-sets') break
      table.confirm(batch, outcome)
    }
    assert.equal(table.planSets().ops[0]?.op, 'destroy-set')
    await adopt(table, ipset)
    await settled(table, ipset)
    assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.elements, 3)
    assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.maxElements, 65_536)
  })

  it('a set of another type is replaced', async () => {
    const { ipset } = openModelKernel()
    const foreign = { name: 'KUBE-CLUSTER-IP', type: 'hash:ip', family: 'ipv4', maxElements: 9 } as const
    await ipset.apply([
      { op: 'create-set', set: { ...foreign, hashSize: 64, hasMarks: false, hasComments: false } },
    ])
    const table = await opened(ipset)
    table.want('a', [frontend('clusterIP', '10.96.0.1')])
    await settled(table, ipset)
    assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.type, 'hash:ip,port')
    assert.equal((await headerOf(ipset, 'KUBE-CLUSTER-IP'))?.elements, 1)
  })
})

const key = (name: string) => servicePortKey(`default/${name}`, '/TCP')

describe('marks', () => {
  const free = { former: () => undefined, isReserved: () => false }
  const masks = [0x107f, 0x1, 0x80, 0xffff_0000, 0x8000_0001, 0xaaaa_0000, 0x0fff_b000]
  for (const mask of masks) {
    it(`of 0x${mask.toString(16)} are within the mask, have its highest bit, and are unique until it is used up`, () => {
      const table = new MarkTable(mask)
      const bits = mask.toString(2).replaceAll('0', '').length
      const size = 2 ** (bits - 1)
      assert.equal(table.size, size)
      const taken = new Set<number>()
      const some = Math.min(size, 2000)
      for (let i = 0; i < some; i++) {
        const mark = table.take(key(`s${i}`), free)
        assert.ok(mark !== undefined && Number.isInteger(mark) && mark > mask / 2 && mark <= mask)
        assert.equal(mark & ~mask, 0)
        taken.add(mark)
      }
      assert.equal(taken.size, some)
      assert.equal(table.take(key('late'), free) === undefined, size === some)
    })
  }

  it('are stable per service port', () => {
    const some = new MarkTable(0x3fff)
    const others = new MarkTable(0x3fff)
    for (let i = 0; i < 1000; i++) {
      const mark = some.take(key(`s${i}`), free)
      assert.equal(others.take(key(`s${i}`), { ...free, former: () => mark }), mark)
      assert.equal(some.take(key(`s${i}`), free), mark)
    }
  })

  it('can be used up, and are free again when released and without a frontend', () => {
    const table = new MarkTable(0x107f)
    for (let i = 0; i < 128; i++) assert.ok(table.take(key(`s${i}`), free) !== undefined)
    assert.equal(table.take(key('late'), free), undefined)
    const mark = table.take(key('s1'), free)
    assert.ok(mark !== undefined)
    table.release(key('s1'))
    table.release(key('s1'))
    assert.equal(
      table.settle(() => new Set([mark])),
      false,
    )
    assert.equal(table.take(key('late'), { ...free, former: () => mark }), undefined)
    assert.equal(
      table.settle(() => new Set()),
      true,
    )
    assert.equal(table.freeCount, 1)
    assert.equal(table.take(key('late'), free), mark)
  })

  it('are not adopted from another mask', () => {
    const table = new MarkTable(0x107f)
    for (const former of [0x7, 0x2001, 0x1080, 0x5001])
      assert.notEqual(table.take(key(`former-${former}`), { ...free, former: () => former }), former)
  })

  it('that are reserved go only to their former owner', () => {
    const table = new MarkTable(0x107f)
    const first = table.take(key('a'), free)
    table.release(key('a'))
    table.settle(() => new Set())
    const isReserved = (mark: number): boolean => mark === first
    assert.notEqual(table.take(key('a'), { ...free, isReserved }), first)
  })
})
