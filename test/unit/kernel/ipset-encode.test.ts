import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import {
  hostPrefixLength,
  describeIpsetEntry,
  describeIpsetOp,
  IpsetEntryCursor,
  type IpsetEntry,
  type IpsetOp,
  type IpsetSettings,
  type IpsetType,
} from '../../../src/kernel/index.js'
import { familyOfIpsetOp, ipsetShapes } from '../../../src/kernel/ipset/ipset.js'
import { decodeIpsetHeaders } from '../../../src/kernel/ipset/cursor.js'
import { encodeIpsetOps } from '../../../src/kernel/ipset/encode.js'
import { entryLayout, opLayout, opNumber } from '../../../src/kernel/ipset/layout.js'
import { settleIpsetFailure } from '../../../src/kernel/ipset/real-ipset.js'
import { RecordTable } from '../../../src/kernel/records.js'
import { ip } from '../../support/routes.js'

class OpCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, opLayout)
  }

  fields(index: number): readonly [op: number, set: number, object: number] {
    return [this.u8(index, opLayout.op), this.u32(index, opLayout.set), this.u32(index, opLayout.object)]
  }
}

class CommentCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, entryLayout)
  }

  comment(index: number, texts: Uint8Array): string {
    const offset = this.u32(index, entryLayout.commentOffset)
    return new TextDecoder().decode(
      texts.subarray(offset, offset + this.u8(index, entryLayout.commentLength)),
    )
  }
}

const types = [
  'hash:ip',
  'hash:net',
  'hash:ip,port',
  'hash:ip,port,ip',
  'hash:ip,port,net',
  'bitmap:port',
] as const
const plain: IpsetSettings = {
  name: 'A',
  type: 'hash:ip,port',
  family: 'ipv4',
  maxElements: 65_536,
  hashSize: 1024,
  hasMarks: false,
  hasComments: false,
}
const web: IpsetEntry = { address: ip('10.96.0.10'), protocol: 'tcp', port: 80 }

const u32 = fc.nat(0xffff_ffff)

/** A set, and an entry that fits it. */
const anyMember: fc.Arbitrary<readonly [IpsetSettings, IpsetEntry]> = fc
  .record({
    type: fc.constantFrom<IpsetType[]>(...types),
    family: fc.constantFrom<('ipv4' | 'ipv6')[]>('ipv4', 'ipv6'),
    four: fc.tuple(fc.ipV4(), fc.ipV4()),
    six: fc.tuple(fc.ipV6(), fc.ipV6()),
    port: fc.nat(65_535),
    protocol: fc.constantFrom<('tcp' | 'udp' | 'sctp' | number)[]>('tcp', 'udp', 'sctp', 47),
    prefixLength: fc.nat(128),
    mark: fc.tuple(u32, u32),
    comment: fc.string({ maxLength: 60, unit: 'grapheme' }),
  })
  .map(({ type, family, four, six, port, protocol, prefixLength, mark: [value, mask], comment }) => {
    const shape = ipsetShapes[type]
    const [address, secondAddress] = (family === 'ipv4' ? four : six).map(ip)
    assert.ok(address !== undefined && secondAddress !== undefined)
    const entry: IpsetEntry = {
      ...(shape.hasAddress ? { address } : {}),
      ...(shape.hasAddress && shape.hasPort ? { protocol } : {}),
      ...(shape.hasPort ? { port } : {}),
      ...(shape.hasSecondAddress ? { secondAddress } : {}),
      ...(shape.hasNetwork ? { prefixLength: Math.min(prefixLength, hostPrefixLength(family)) } : {}),
      ...(value !== 0 || mask !== 0 ? { mark: { value, mask } } : {}),
      ...(comment === '' ? {} : { comment }),
    }
    return [{ ...plain, type, family, hasMarks: true, hasComments: true }, entry]
  })

describe('encodeIpsetOps', () => {
  it('keeps every field of every entry', () => {
    fc.assert(
      fc.property(fc.array(anyMember, { minLength: 1 }), (members) => {
        const ops = members.map(([set, entry], index): IpsetOp => {
          return { op: index % 2 === 0 ? 'add-entry' : 'delete-entry', set, entry }
        })
        const { ops: records, entries, texts } = encodeIpsetOps(ops)
        for (const [index, [set, entry]] of members.entries()) {
          const [number, , object] = new OpCursor(records).fields(index)
          assert.equal(number, opNumber[ops[index]?.op ?? 'create-set'])
          const { comment = '', ...rest } = entry
          const cursor = new IpsetEntryCursor(entries, set.type)
          assert.deepEqual(cursor.entry(object), rest)
          assert.equal(cursor.key(object), describeIpsetEntry(entry))
          assert.equal(new CommentCursor(entries).comment(object, texts), comment)
        }
      }),
    )
  })

  it('shares the record of a set between consecutive operations, and names the other sets', () => {
    const other = { ...plain, name: 'B' }
    const ops: readonly IpsetOp[] = [
      { op: 'create-set', set: plain },
      { op: 'add-entry', set: plain, entry: web },
      { op: 'add-entry', set: other, entry: web },
      { op: 'swap-sets', name: 'A', other: 'B' },
      { op: 'rename-set', name: 'B', to: 'C' },
      { op: 'delete-entry', set: other, entry: web },
      { op: 'flush-set', name: 'A' },
      { op: 'destroy-set', name: 'C' },
    ]
    const { ops: records, sets } = encodeIpsetOps(ops)
    const names = decodeIpsetHeaders(sets).map(({ name }) => name)
    assert.deepEqual(names, ['A', 'B', 'A', 'B', 'B', 'C', 'B', 'A', 'C'])
    assert.deepEqual(
      ops.map((_, index) => new OpCursor(records).fields(index)),
      [
        [1, 0, 0],
        [6, 0, 0],
        [6, 1, 1],
        [4, 2, 3],
        [5, 4, 5],
        [7, 6, 2],
        [3, 7, 0],
        [2, 8, 0],
      ],
    )
  })

  const wrong: readonly (readonly [what: string, op: IpsetOp])[] = [
    [
      'an address of the other family',
      { op: 'add-entry', set: plain, entry: { ...web, address: ip('fd00::1') } },
    ],
    ['no port', { op: 'add-entry', set: plain, entry: { address: ip('10.0.0.1'), protocol: 'tcp' } }],
    ['no protocol', { op: 'add-entry', set: plain, entry: { address: ip('10.0.0.1'), port: 80 } }],
    ['no address', { op: 'delete-entry', set: plain, entry: { protocol: 'tcp', port: 80 } }],
    ['no second address', { op: 'add-entry', set: { ...plain, type: 'hash:ip,port,ip' }, entry: web }],
    ['no prefix length', { op: 'add-entry', set: { ...plain, type: 'hash:net' }, entry: web }],
    ['a long comment', { op: 'add-entry', set: plain, entry: { ...web, comment: 'ä'.repeat(128) } }],
    ['a long name', { op: 'destroy-set', name: 'x'.repeat(32) }],
    ['an empty name', { op: 'rename-set', name: 'A', to: '' }],
  ]
  for (const [what, op] of wrong) {
    it(`BugError: ${what}`, () => {
      assert.throws(() => encodeIpsetOps([op]), { name: 'BugError' })
    })
  }

  it('writes nothing for no operations', () => {
    const { ops, sets, entries, texts } = encodeIpsetOps([])
    assert.equal(ops.length + sets.length + entries.length + texts.length, 0)
  })
})

describe('the words for sets', () => {
  const bitmap: IpsetSettings = { ...plain, name: 'P', type: 'bitmap:port' }
  const cases: readonly (readonly [op: IpsetOp, words: string, family: string])[] = [
    [{ op: 'create-set', set: plain }, 'A hash:ip,port', 'ipv4'],
    [{ op: 'create-set', set: bitmap }, 'P bitmap:port', 'none'],
    [{ op: 'destroy-set', name: 'A' }, 'A', 'none'],
    [{ op: 'swap-sets', name: 'A', other: 'B' }, 'A with B', 'none'],
    [{ op: 'rename-set', name: 'A', to: 'B' }, 'A to B', 'none'],
    [{ op: 'add-entry', set: plain, entry: web }, 'A 10.96.0.10,tcp:80', 'ipv4'],
    [{ op: 'delete-entry', set: bitmap, entry: { port: 30_080 } }, 'P 30080', 'none'],
  ]
  for (const [op, words, family] of cases) {
    it(`${op.op}: ${words}`, () => {
      assert.equal(describeIpsetOp(op), words)
      assert.equal(familyOfIpsetOp(op), family)
    })
  }
})

describe('settleIpsetFailure', () => {
  const op: IpsetOp = { op: 'add-entry', set: plain, entry: web }
  const create: IpsetOp = { op: 'create-set', set: plain }
  const swap: IpsetOp = { op: 'swap-sets', name: 'A', other: 'B' }
  const rename: IpsetOp = { op: 'rename-set', name: 'A', to: 'B' }
  const ofBitmap: IpsetOp = { op: 'add-entry', set: { ...plain, type: 'bitmap:port' }, entry: { port: 1 } }
  const cases: readonly (readonly [op: IpsetOp, errno: number, settled: number, text: RegExp])[] = [
    [op, 1, 1, /^$/u],
    [create, 4098, 4098, /load the module ip_set_hash_ipport$/u],
    [swap, 4098, 4098, /^$/u],
    [{ op: 'destroy-set', name: 'A' }, 4100, 16, /refers to it/u],
    [swap, 4101, 2, /there is no set B/u],
    [rename, 4101, 17, /^$/u],
    [rename, 4108, 16, /refers to it/u],
    [swap, 4102, 4102, /hold different things/u],
    [op, 4103, 17, /^$/u],
    [{ op: 'delete-entry', set: plain, entry: web }, 4103, 2, /^$/u],
    [op, 4352, 4352, /the set is full/u],
    [ofBitmap, 4352, 34, /outside the range/u],
    [op, 4999, 4999, /^$/u],
  ]
  for (const [failed, errno, settled, text] of cases) {
    it(`${failed.op}: ${errno} is ${settled}`, () => {
      const failure = settleIpsetFailure(failed, { index: 3, errno, unknown: false, text: '' })
      assert.equal(failure.index, 3)
      assert.equal(failure.errno, settled)
      assert.match(failure.text, text)
    })
  }

  it('keeps the kernel’s message', () => {
    const failure = settleIpsetFailure(op, { index: 0, errno: 4352, unknown: false, text: 'its words' })
    assert.equal(failure.text, 'its words')
  })
})
