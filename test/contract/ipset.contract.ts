// Laws of Ipset, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { describeIpsetEntry, IpsetEntryCursor } from '../../src/kernel/index.js'
import type {
  Ipset,
  IpsetEntry,
  IpsetHeader,
  IpsetOp,
  IpsetSettings,
  IpsetType,
} from '../../src/kernel/index.js'
import { applyAll, failures, ip, refusedWith, rejectsWith } from './law.js'

export interface IpsetSubject {
  readonly ipset: Ipset
  /** Makes a rule refer to a set of one dimension, or to none. */
  readonly refer: (name: string | undefined) => Promise<void>
}

const plain: IpsetSettings = {
  name: 'KUBE-CLUSTER-IP',
  type: 'hash:ip,port',
  family: 'ipv4',
  maxElements: 65_536,
  hashSize: 64,
  hasMarks: false,
  hasComments: false,
}
const six: IpsetSettings = { ...plain, name: 'KUBE-6-CLUSTER-IP', family: 'ipv6' }
const rich: IpsetSettings = { ...plain, name: 'RICH', hasMarks: true, hasComments: true }
const addresses: IpsetSettings = { ...plain, name: 'KUBE-IPVS-IPS', type: 'hash:ip' }
const bitmap: IpsetSettings = { ...plain, name: 'KUBE-NODE-PORT-TCP', type: 'bitmap:port' }

const web: IpsetEntry = { address: ip('10.96.0.10'), protocol: 'tcp', port: 80 }
const dns: IpsetEntry = { address: ip('10.96.0.11'), protocol: 'udp', port: 53 }
const noPort: IpsetEntry = { address: ip('10.96.0.12'), protocol: 'sctp', port: 0 }
const web6: IpsetEntry = { address: ip('fd00:96::a'), protocol: 'tcp', port: 80 }

const create = (set: IpsetSettings): IpsetOp => ({ op: 'create-set', set })
const add = (set: IpsetSettings, entry: IpsetEntry): IpsetOp => ({ op: 'add-entry', set, entry })
const remove = (set: IpsetSettings, entry: IpsetEntry): IpsetOp => ({ op: 'delete-entry', set, entry })
const destroy = (name: string): IpsetOp => ({ op: 'destroy-set', name })
const swap = (name: string, other: string): IpsetOp => ({ op: 'swap-sets', name, other })
const rename = (name: string, to: string): IpsetOp => ({ op: 'rename-set', name, to })

/** `10.1.x.y,tcp:80` by number. */
function numbered(index: number): IpsetEntry {
  return { ...web, address: ip(`10.1.${(index >> 8) & 255}.${index & 255}`) }
}

/** An entry that a set without marks refuses. */
const refusedEntry = (index: number): IpsetEntry => ({ ...numbered(index), mark: { value: 1, mask: 1 } })

async function entriesOf(ipset: Ipset, set: IpsetSettings): Promise<readonly IpsetEntry[]> {
  const cursor = new IpsetEntryCursor(await ipset.entries(set.name), set.type)
  const entries = Array.from({ length: cursor.length }, (_, index) => {
    assert.equal(cursor.isException(index), false)
    assert.equal(cursor.key(index), describeIpsetEntry(cursor.entry(index)))
    return cursor.entry(index)
  })
  return sorted(entries)
}

function sorted(entries: readonly IpsetEntry[]): readonly IpsetEntry[] {
  return entries.toSorted((a, b) => (describeIpsetEntry(a) < describeIpsetEntry(b) ? -1 : 1))
}

async function headerOf(ipset: Ipset, name: string): Promise<IpsetHeader | undefined> {
  return (await ipset.sets()).find((header) => header.name === name)
}

/** The listing of an empty set with these settings. */
function emptyHeader({ name, type, family, maxElements, hasMarks, hasComments }: IpsetSettings): IpsetHeader {
  const rest = { name, type, hasMarks, hasComments, references: 0, elements: 0 }
  if (type === 'bitmap:port') return { ...rest, family: undefined, maxElements: 65_536 }
  return { ...rest, family, maxElements }
}

type Law = (name: string, run: (subject: IpsetSubject) => Promise<void>) => void

/** Runs each law in its own namespace, without sets. */
export function ipsetContract(subject: string, open: () => IpsetSubject): void {
  describe(`${subject}: Ipset`, () => {
    let opened: IpsetSubject
    before(() => {
      opened = open()
    })
    const clear = async (): Promise<void> => {
      await opened.refer(undefined)
      const sets = await opened.ipset.sets()
      await applyAll(
        opened.ipset,
        sets.map(({ name }) => destroy(name)),
      )
    }
    beforeEach(clear)
    after(async () => {
      await clear()
      await opened.ipset.close()
      await opened.ipset.close()
      await rejectsWith(opened.ipset.apply([create(plain)]), 'EBADF')
      await assert.rejects(opened.ipset.entries('GONE'), { code: 'EBADF', object: 'GONE' })
    })
    const law: Law = (name, run) => {
      it(name, () => run(opened))
    }
    setLaws(law)
    entryLaws(law)
    refusalLaws(law)
    exchangeLaws(law)
    referenceLaws(law)
    batchLaws(law)
  })
}

function setLaws(law: Law): void {
  const made: readonly IpsetSettings[] = [
    plain,
    six,
    addresses,
    bitmap,
    rich,
    { ...plain, name: 'NET', type: 'hash:net', hasMarks: true },
    { ...six, name: 'PAIR', type: 'hash:ip,port,ip', hasComments: true },
    { ...plain, name: 'SOURCES', type: 'hash:ip,port,net', maxElements: 200_000, hashSize: 4096 },
    { ...bitmap, name: 'PORTS', hasMarks: true, hasComments: true },
    { ...six, name: 'A-NAME-OF-THIRTY-ONE-CHARACTERS' },
  ]
  for (const set of made) {
    law(`lists what was created: ${JSON.stringify(set)}`, async ({ ipset }) => {
      await applyAll(ipset, [create(set)])
      assert.deepEqual(await ipset.sets(), [emptyHeader(set)])
      assert.deepEqual(await entriesOf(ipset, set), [])
      await applyAll(ipset, [create(set), create({ ...set, hashSize: 128 })])
      assert.deepEqual(await ipset.sets(), [emptyHeader(set)])
      await applyAll(ipset, [destroy(set.name)])
      assert.deepEqual(await ipset.sets(), [])
    })
  }

  for (const [what, set] of [
    ['another size', { ...plain, maxElements: 65_535 }],
    ['marks', { ...plain, hasMarks: true }],
    ['comments', { ...plain, hasComments: true }],
    ['another type', { ...plain, type: 'hash:ip,port,ip' }],
    ['no addresses', { ...plain, type: 'bitmap:port' }],
    ['the other family', { ...plain, family: 'ipv6' }],
  ] as const satisfies readonly (readonly [string, IpsetSettings])[]) {
    law(`EEXIST: a set with the same name and ${what}, in either order`, async ({ ipset }) => {
      for (const [first, second] of [
        [plain, set],
        [set, plain],
      ] as const) {
        await applyAll(ipset, [create(first)])
        await refusedWith(ipset, create(second), 'EEXIST')
        assert.deepEqual(await ipset.sets(), [emptyHeader(first)])
        await applyAll(ipset, [destroy(first.name)])
      }
    })
  }
}

/** Entries of a set of each type; `other` differs from `first` in each part that it has. */
const members: readonly { readonly type: IpsetType; readonly entries: readonly IpsetEntry[] }[] = [
  { type: 'hash:ip', entries: [{ address: ip('10.96.0.10') }, { address: ip('255.255.255.255') }] },
  { type: 'hash:ip', entries: [{ address: ip('fd00:96::a') }, { address: ip('::1') }] },
  {
    type: 'hash:net',
    entries: [
      { address: ip('10.0.0.0'), prefixLength: 8 },
      { address: ip('10.0.0.0'), prefixLength: 9 },
      { address: ip('10.96.0.10'), prefixLength: 32 },
      { address: ip('128.0.0.0'), prefixLength: 1 },
    ],
  },
  {
    type: 'hash:net',
    entries: [
      { address: ip('fd00::'), prefixLength: 8 },
      { address: ip('fd00:96::a'), prefixLength: 128 },
    ],
  },
  {
    type: 'hash:ip,port',
    entries: [web, dns, noPort, { ...web, protocol: 'udp' }, { ...web, port: 65_535 }],
  },
  { type: 'hash:ip,port', entries: [web6, { ...web6, protocol: 'sctp' }] },
  { type: 'hash:ip,port', entries: [{ ...web, protocol: 47, port: 0 }] },
  {
    type: 'hash:ip,port,ip',
    entries: [
      { ...web, secondAddress: ip('10.96.0.10') },
      { ...web, secondAddress: ip('10.96.0.11') },
    ],
  },
  { type: 'hash:ip,port,ip', entries: [{ ...web6, secondAddress: ip('fd00:96::b') }] },
  {
    type: 'hash:ip,port,net',
    entries: [
      { ...web, secondAddress: ip('10.0.0.0'), prefixLength: 8 },
      { ...web, secondAddress: ip('192.0.2.7'), prefixLength: 32 },
      { ...web, secondAddress: ip('0.0.0.0'), prefixLength: 1 },
    ],
  },
  { type: 'hash:ip,port,net', entries: [{ ...web6, secondAddress: ip('fd00::'), prefixLength: 8 }] },
  { type: 'bitmap:port', entries: [{ port: 0 }, { port: 80 }, { port: 65_535 }] },
]

function entryLaws(law: Law): void {
  for (const { type, entries } of members) {
    const [first] = entries
    assert.ok(first !== undefined)
    const isSix = first.address?.includes(':') === true
    const set = { ...(isSix ? six : plain), type }
    law(`${type}: ${entries.map(describeIpsetEntry).join(' ')}`, async ({ ipset }) => {
      await applyAll(ipset, [create(set), ...entries.map((entry) => add(set, entry))])
      assert.deepEqual(await entriesOf(ipset, set), sorted(entries))
      await applyAll(ipset, [...entries.map((entry) => add(set, entry)), remove(set, first)])
      assert.deepEqual(await entriesOf(ipset, set), sorted(entries.slice(1)))
      assert.equal((await headerOf(ipset, set.name))?.elements, entries.length - 1)
      await applyAll(ipset, [remove(set, first), add(set, first), { op: 'flush-set', name: set.name }])
      assert.deepEqual(await entriesOf(ipset, set), [])
    })

    law(`${type}: marks and comments, ${describeIpsetEntry(first)}`, async ({ ipset }) => {
      const marking = { ...set, hasMarks: true, hasComments: true }
      const marked = { ...first, mark: { value: 0x1234_5678, mask: 0xffff_ffff } }
      const commented = { ...marked, comment: 'default/web:http' }
      await applyAll(ipset, [create(marking), add(marking, commented)])
      assert.deepEqual(await entriesOf(ipset, marking), [marked])
      const other = { ...first, mark: { value: 0, mask: 0xff00 } }
      await applyAll(ipset, [add(marking, other)])
      assert.deepEqual(await entriesOf(ipset, marking), [other])
      await applyAll(ipset, [add(marking, first), add(marking, { ...first, comment: 'x'.repeat(255) })])
      assert.deepEqual(await entriesOf(ipset, marking), [first])
      await applyAll(ipset, [remove(marking, commented)])
      assert.deepEqual(await entriesOf(ipset, marking), [])
    })
  }
}

function refusalLaws(law: Law): void {
  const networks: IpsetSettings = { ...plain, name: 'NET', type: 'hash:net' }
  const sources: IpsetSettings = { ...plain, name: 'SOURCES', type: 'hash:ip,port,net' }
  const addresses6: IpsetSettings = { ...six, name: 'KUBE-6-IPVS-IPS', type: 'hash:ip' }
  const absent = { ...plain, name: 'ABSENT' }
  const everywhere = { address: ip('0.0.0.0'), prefixLength: 0 }
  const refusals: readonly (readonly [code: string, what: string, op: IpsetOp])[] = [
    ['ENOENT', 'destroy an absent set', destroy(absent.name)],
    ['ENOENT', 'flush an absent set', { op: 'flush-set', name: absent.name }],
    ['ENOENT', 'swap with an absent set', swap(plain.name, absent.name)],
    ['ENOENT', 'swap an absent set', swap(absent.name, plain.name)],
    ['ENOENT', 'rename an absent set', rename(absent.name, 'OTHER')],
    ['EEXIST', 'rename to an existing set', rename(plain.name, rich.name)],
    ['ENOENT', 'add to an absent set', add(absent, web)],
    ['ENOENT', 'delete from an absent set', remove(absent, web)],
    ['IPSET_ERR_SKBINFO', 'a mark', add(plain, { ...web, mark: { value: 1, mask: 1 } })],
    ['IPSET_ERR_COMMENT', 'a comment', add(plain, { ...web, comment: 'x' })],
    ['IPSET_ERR_HASH_ELEM', 'the address 0.0.0.0', add(addresses, { address: ip('0.0.0.0') })],
    ['IPSET_ERR_HASH_ELEM', 'the address ::', add(addresses6, { address: ip('::') })],
    ['IPSET_ERR_INVALID_CIDR', 'a prefix length of 0', add(networks, everywhere)],
    ['IPSET_ERR_INVALID_CIDR', 'a prefix length of 33', add(networks, { ...everywhere, prefixLength: 33 })],
    [
      'IPSET_ERR_INVALID_CIDR',
      'a source prefix length of 0',
      add(sources, { ...web, secondAddress: ip('0.0.0.0'), prefixLength: 0 }),
    ],
    ['IPSET_ERR_TYPE_MISMATCH', 'swap with another type', swap(plain.name, networks.name)],
    ['IPSET_ERR_TYPE_MISMATCH', 'swap with the other family', swap(plain.name, six.name)],
  ]
  for (const [code, what, op] of refusals) {
    law(`${code}: ${what}`, async ({ ipset }) => {
      const sets = [plain, six, rich, addresses, addresses6, networks, sources]
      await applyAll(ipset, [...sets.map(create), add(plain, dns)])
      await refusedWith(ipset, op, code)
      assert.deepEqual(await entriesOf(ipset, plain), [dns])
      assert.equal((await ipset.sets()).length, sets.length)
    })
  }

  law('ENOENT: entries of an absent set', async ({ ipset }) => {
    await assert.rejects(ipset.entries('ABSENT'), { code: 'ENOENT', subsystem: 'ipset', object: 'ABSENT' })
  })

  law('a full set refuses new entries and accepts existing ones', async ({ ipset }) => {
    const small = { ...plain, maxElements: 300 }
    const all = Array.from({ length: 500 }, (_, index) => numbered(index))
    await applyAll(ipset, [create(small)])
    const outcome = await ipset.apply(all.map((entry) => add(small, entry)))
    const full = Array.from({ length: 200 }, (_, index) => `${300 + index} IPSET_ERR_HASH_FULL`)
    assert.deepEqual(failures(outcome), full)
    assert.equal(outcome.applied, 300)
    await applyAll(ipset, [add(small, numbered(0)), remove(small, numbered(1)), add(small, numbered(1))])
    await refusedWith(ipset, add(small, numbered(300)), 'IPSET_ERR_HASH_FULL')
    assert.equal((await entriesOf(ipset, small)).length, 300)
  })
}

function exchangeLaws(law: Law): void {
  const larger: IpsetSettings = { ...plain, name: 'NEXT', maxElements: 200_000, hasMarks: true }
  const asLarger = { ...larger, name: plain.name }

  law('a swap exchanges entries, sizes and extensions', async ({ ipset }) => {
    await applyAll(ipset, [create(plain), create(larger), add(plain, web), add(larger, dns)])
    await applyAll(ipset, [swap(plain.name, larger.name)])
    assert.deepEqual(await entriesOf(ipset, plain), [dns])
    assert.deepEqual(await entriesOf(ipset, larger), [web])
    assert.deepEqual(await headerOf(ipset, plain.name), { ...emptyHeader(asLarger), elements: 1 })
    await applyAll(ipset, [create(asLarger)])
    await refusedWith(ipset, create(plain), 'EEXIST')
  })

  law('a set grows by a swap, and its rule always finds every entry', async ({ ipset, refer }) => {
    const small = { ...plain, type: 'hash:ip', maxElements: 100 } as const
    const next = { ...small, name: 'NEXT', maxElements: 1000, hashSize: 1024 }
    const all = Array.from({ length: 500 }, (_, index) => ({
      address: ip(`10.2.${index >> 8}.${index & 255}`),
    }))
    await applyAll(ipset, [create(small), ...all.slice(0, 100).map((entry) => add(small, entry))])
    await refer(small.name)
    await applyAll(ipset, [create(next), ...all.map((entry) => add(next, entry))])
    await applyAll(ipset, [swap(small.name, next.name), destroy(next.name)])
    const now = { ...small, maxElements: next.maxElements }
    assert.deepEqual(await ipset.sets(), [{ ...emptyHeader(now), references: 1, elements: all.length }])
    assert.deepEqual(await entriesOf(ipset, small), sorted(all))
    await applyAll(ipset, [create(now)])
  })

  law('a rename keeps the entries', async ({ ipset }) => {
    await applyAll(ipset, [create(plain), add(plain, web), rename(plain.name, 'OTHER')])
    assert.deepEqual(await entriesOf(ipset, { ...plain, name: 'OTHER' }), [web])
    await refusedWith(ipset, destroy(plain.name), 'ENOENT')
  })
}

function referenceLaws(law: Law): void {
  law('a set in use by a rule can be filled, but not destroyed or renamed', async ({ ipset, refer }) => {
    await applyAll(ipset, [create(addresses)])
    await refer(addresses.name)
    assert.equal((await headerOf(ipset, addresses.name))?.references, 1)
    await refusedWith(ipset, destroy(addresses.name), 'EBUSY')
    await refusedWith(ipset, rename(addresses.name, 'OTHER'), 'EBUSY')
    const entry = { address: ip('10.96.0.10') }
    await applyAll(ipset, [add(addresses, entry), { op: 'flush-set', name: addresses.name }])
    await refer(undefined)
    await applyAll(ipset, [rename(addresses.name, 'OTHER'), destroy('OTHER')])
  })

  law('a set of another type can be replaced when no rule refers to it', async ({ ipset, refer }) => {
    const foreign = { ...addresses, name: plain.name }
    const next = { ...plain, name: 'NEXT' }
    await applyAll(ipset, [create(foreign)])
    await refer(foreign.name)
    await refusedWith(ipset, create(plain), 'EEXIST')
    await applyAll(ipset, [create(next), add(next, web)])
    await refusedWith(ipset, swap(plain.name, next.name), 'IPSET_ERR_TYPE_MISMATCH')
    await refer(undefined)
    await refusedWith(ipset, swap(plain.name, next.name), 'IPSET_ERR_TYPE_MISMATCH')
    await applyAll(ipset, [destroy(plain.name), rename(next.name, plain.name)])
    assert.deepEqual(await entriesOf(ipset, plain), [web])
  })
}

function batchLaws(law: Law): void {
  law(
    'thousands of entries, of which some are refused: each is named, all others are in',
    async ({ ipset }) => {
      const count = 5000
      const isRefused = (index: number): boolean => index === 0 || index % 1999 === 7 || index > count - 3
      const all = Array.from({ length: count }, (_, index) => index)
      const ops = all.map((index) => add(plain, isRefused(index) ? refusedEntry(index) : numbered(index)))
      await applyAll(ipset, [create(plain)])
      const outcome = await ipset.apply(ops)
      const refused = all.filter(isRefused)
      assert.deepEqual(
        failures(outcome),
        refused.map((index) => `${index} IPSET_ERR_SKBINFO`),
      )
      assert.equal(outcome.applied, count - refused.length)
      const wanted = all.filter((index) => !isRefused(index)).map(numbered)
      assert.deepEqual(await entriesOf(ipset, plain), sorted(wanted))
      const gone = await ipset.apply(ops.map((op) => ('entry' in op ? { ...op, op: 'delete-entry' } : op)))
      assert.equal(gone.failures.length, refused.length)
      assert.deepEqual(await entriesOf(ipset, plain), [])
    },
  )

  law('operations after a refused entry keep their order', async ({ ipset }) => {
    const outcome = await ipset.apply([
      create(plain),
      create(six),
      create(rich),
      add(plain, refusedEntry(0)),
      add(plain, web),
      add(rich, { ...web, mark: { value: 1, mask: 1 } }),
      add(six, web6),
      remove(plain, web),
      add(rich, { ...web, mark: { value: 2, mask: 2 } }),
      add(plain, dns),
      swap(plain.name, rich.name),
      add(plain, { ...dns, mark: { value: 3, mask: 3 } }),
      remove(rich, refusedEntry(1)),
      add(rich, noPort),
      destroy(six.name),
      add(six, web6),
    ])
    assert.deepEqual(failures(outcome), ['3 IPSET_ERR_SKBINFO', '12 IPSET_ERR_SKBINFO', '15 ENOENT'])
    assert.deepEqual(
      outcome.failures.map(({ error, unknown }) => [error.operation, error.family, error.object, unknown]),
      [
        ['add-entry', 'ipv4', 'KUBE-CLUSTER-IP 10.1.0.0,tcp:80', false],
        ['delete-entry', 'ipv4', 'RICH 10.1.0.1,tcp:80', false],
        ['add-entry', 'ipv6', 'KUBE-6-CLUSTER-IP fd00:96::a,tcp:80', false],
      ],
    )
    assert.deepEqual(
      await entriesOf(ipset, plain),
      sorted([
        { ...web, mark: { value: 2, mask: 2 } },
        { ...dns, mark: { value: 3, mask: 3 } },
      ]),
    )
    assert.deepEqual(await entriesOf(ipset, rich), sorted([dns, noPort]))
  })

  law('entries with long comments that need several messages are all added', async ({ ipset }) => {
    const all = Array.from({ length: 1000 }, (_, index) => numbered(index))
    const ops = all.map((entry, index) => add(rich, { ...entry, comment: `${index}`.padEnd(255, '.') }))
    await applyAll(ipset, [create(rich), ...ops])
    assert.deepEqual(await entriesOf(ipset, rich), sorted(all))
  })

  law('overlapping calls are answered in order', async ({ ipset }) => {
    const [made, listed, gone] = await Promise.all([
      ipset.apply([create(plain), add(plain, web)]),
      entriesOf(ipset, plain),
      ipset.apply([destroy(plain.name)]),
    ])
    assert.deepEqual([made.applied, listed.length, gone.applied], [2, 1, 1])
  })

  law('an empty batch has an empty outcome', async ({ ipset }) => {
    assert.deepEqual(await ipset.apply([]), { applied: 0, failures: [] })
  })
}
