import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { parseIpAddress, readAddress, type IpAddress, type IpFamily } from '../../../src/address.js'
import { BugError } from '../../../src/errors.js'
import { describeXtRule } from '../../../src/kernel/index.js'
import type { Protocol, XtOp, XtRule, XtTarget } from '../../../src/kernel/index.js'
import { RecordTable } from '../../../src/kernel/records.js'
import { encodeTexts, encodeXtBatch, type XtPlace } from '../../../src/kernel/xtables/encode.js'
import { chainLayout, ruleLayout as layout } from '../../../src/kernel/xtables/layout.js'

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  assert.ok(address !== undefined)
  return address
}

const set = (chain: string, ...rules: readonly XtRule[]): XtOp => ({ op: 'set-chain', chain, rules })
const accept: XtTarget = { kind: 'accept' }
const protocols = new Map<number, Protocol>([
  [6, 'tcp'],
  [17, 'udp'],
  [132, 'sctp'],
])

class ChainCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, chainLayout)
  }

  /** Index of its name, its first rule, its number of rules, its operation. */
  record(index: number): readonly number[] {
    const { name, firstRule, ruleCount, op } = chainLayout
    return [...[name, firstRule, ruleCount].map((field) => this.u32(index, field)), this.u8(index, op)]
  }
}

/** Reads rules back as native/xtables/rule_encoder.cc does. */
class RuleCursor extends RecordTable {
  readonly #texts: readonly string[]
  readonly #family: IpFamily

  constructor(bytes: Uint8Array, texts: Uint8Array, family: IpFamily) {
    super(bytes, layout)
    this.#texts = Buffer.from(texts).toString('utf8').split('\0')
    this.#family = family
  }

  rule(i: number): XtRule {
    const matches = this.u16(i, layout.matches)
    const not = (bit: number): { readonly isInverted?: boolean } =>
      (this.u16(i, layout.inverts) & bit) === 0 ? {} : { isInverted: true }
    const ports = (from: number): readonly [number, number] => [this.u16(i, from), this.u16(i, from + 2)]
    const source = this.#network(i, layout.source, layout.sourcePrefix)
    const destination = this.#network(i, layout.destination, layout.destinationPrefix)
    const [inName, outName] = [this.#text(i, layout.inInterface), this.#text(i, layout.outInterface)]
    const [members, recent] = [this.#text(i, layout.setName), this.#text(i, layout.recentList)]
    const protocol = protocols.get(this.u8(i, layout.protocol))
    const comment = this.#text(i, layout.comment)
    const seconds = this.u32(i, layout.recentSeconds)
    const isCheck = this.u8(i, layout.recentCheck) === 1
    return {
      ...(source === undefined ? {} : { source: { ...source, ...not(0x01) } }),
      ...(destination === undefined ? {} : { destination: { ...destination, ...not(0x02) } }),
      ...(inName === undefined ? {} : { inInterface: { name: inName, ...not(0x04) } }),
      ...(outName === undefined ? {} : { outInterface: { name: outName, ...not(0x08) } }),
      ...(protocol === undefined ? {} : { protocol }),
      ...(matches & 0x01 ? { sourcePorts: ports(layout.sourcePortFrom) } : {}),
      ...(matches & 0x02 ? { destinationPorts: ports(layout.destinationPortFrom) } : {}),
      ...(matches & 0x04 ? { mark: { ...this.#mark(i), ...not(0x10) } } : {}),
      ...(matches & 0x08 ? { state: { bits: this.u16(i, layout.state), ...not(0x20) } } : {}),
      ...(matches & 0x10 ? { addressType: { of: this.#typeOf(i), ...not(0x40) } } : {}),
      ...(matches & 0x20 && members !== undefined
        ? { set: { name: members, directions: this.#directions(i), ...not(0x80) } }
        : {}),
      ...(matches & 0x40 ? { isSourceDestination: true } : {}),
      ...(matches & 0x80 && recent !== undefined
        ? {
            recent: {
              list: recent,
              action: isCheck ? 'check' : 'set',
              ...(seconds === 0 ? {} : { seconds }),
            },
          }
        : {}),
      ...(matches & 0x200 ? { isUnconfirmed: true } : {}),
      ...(matches & 0x100 ? { probability: this.u32(i, layout.probability) / 2 ** 31 } : {}),
      ...(comment === undefined ? {} : { comment }),
      target: this.#target(i),
    }
  }

  #text(i: number, field: number): string | undefined {
    const number = this.u32(i, field)
    return number === 0xffffffff ? undefined : this.#texts[number]
  }

  #network(i: number, field: number, prefixField: number): XtRule['source'] {
    const prefixLength = this.u8(i, prefixField)
    return prefixLength === 0 ? undefined : { address: this.ip(i, field, this.#family), prefixLength }
  }

  #mark(i: number): { readonly value: number; readonly mask: number } {
    return { value: this.u32(i, layout.markValue), mask: this.u32(i, layout.markMask) }
  }

  #typeOf(i: number): 'source' | 'destination' {
    return this.u8(i, layout.addressType) === 1 ? 'source' : 'destination'
  }

  #directions(i: number): readonly ('src' | 'dst')[] {
    const sources = this.u8(i, layout.setSources)
    const dimensions = this.u8(i, layout.setDimensions)
    return Array.from({ length: dimensions }, (_, n) => (sources & (1 << n) ? 'src' : 'dst'))
  }

  #target(i: number): XtTarget {
    const kinds = [
      'jump',
      'goto',
      'accept',
      'drop',
      'return',
      'mark',
      'dnat',
      'masquerade',
      'reject',
      'map-mark',
    ] as const
    const kind = kinds[this.u8(i, layout.target) - 1]
    switch (kind) {
      case 'jump':
      case 'goto':
        return { kind, chain: this.#text(i, layout.targetChain) ?? '' }
      case 'mark':
        return { kind, value: this.u32(i, layout.targetValue), mask: this.u32(i, layout.targetMask) }
      case 'dnat':
        return {
          kind,
          address: readAddress(this.bytes, i * layout.size + layout.natAddress, this.#family),
          port: this.u16(i, layout.natPort),
        }
      case 'masquerade':
        return { kind, isRandomFully: this.u32(i, layout.targetValue) === 1 }
      case 'accept':
      case 'drop':
      case 'return':
      case 'reject':
        return { kind }
      case 'map-mark':
        return { kind, set: { name: this.#text(i, layout.setName) ?? '', directions: this.#directions(i) } }
      default:
        throw new Error(`rule ${i} has no target`)
    }
  }
}

/** A record of plain objects: assert.deepEqual distinguishes objects without a prototype. */
const plainRecord = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(fields, { noNullPrototype: true })

const u32 = fc.nat(0xffffffff)
const name = fc.stringMatching(/^[A-Z][A-Z0-9-]{0,26}[A-Z0-9]$/)
const range = fc
  .tuple(fc.nat(0xffff), fc.nat(0xffff))
  .map(([a, b]): readonly [number, number] => [Math.min(a, b), Math.max(a, b)])
const inverted = fc.option(fc.constant(true), { nil: undefined })

function maybeInverted<T extends object>(value: fc.Arbitrary<T>): fc.Arbitrary<T & { isInverted?: boolean }> {
  return fc
    .tuple(value, inverted)
    .map(([object, isInverted]) => (isInverted === undefined ? object : { ...object, isInverted }))
}

/** Rules of table nat. */
function anyRule(family: IpFamily): fc.Arbitrary<XtRule> {
  const address = (family === 'ipv4' ? fc.ipV4() : fc.ipV6())
    .map(ip)
    .filter((text) => text.includes(':') === (family === 'ipv6'))
  const prefixLength = fc.integer({ min: 1, max: family === 'ipv4' ? 32 : 128 })
  const network = maybeInverted(plainRecord({ address, prefixLength }))
  const device = maybeInverted(plainRecord({ name: fc.stringMatching(/^[a-z0-9.@_-]{1,14}[a-z0-9+]$/) }))
  const mark = plainRecord({ value: u32, mask: u32 })
  const direction = fc.constantFrom('src' as const, 'dst' as const)
  const directions = fc.array(direction, { minLength: 1, maxLength: 6 })
  const matches = fc.record(
    {
      source: network,
      destination: network,
      inInterface: device,
      outInterface: device,
      sourcePorts: range,
      destinationPorts: range,
      mark: maybeInverted(mark),
      state: maybeInverted(plainRecord({ bits: fc.integer({ min: 1, max: 0xffff }) })),
      addressType: maybeInverted(
        plainRecord({ of: fc.constantFrom('source' as const, 'destination' as const) }),
      ),
      set: maybeInverted(plainRecord({ name, directions })),
      isUnconfirmed: fc.constant(true),
      isSourceDestination: fc.constant(true),
      recent: fc.oneof(
        plainRecord({ list: name, action: fc.constant('set' as const) }),
        plainRecord({
          list: name,
          action: fc.constant('check' as const),
          seconds: fc.integer({ min: 1, max: 0xffffffff }),
        }),
      ),
      probability: fc.integer({ min: 1, max: 2 ** 31 - 1 }).map((chances) => chances / 2 ** 31),
      comment: fc.string({
        unit: fc.constantFrom('a', 'b', ' ', '"', '\\', 'ü', '€'),
        minLength: 1,
        maxLength: 80,
      }),
    },
    { noNullPrototype: true, requiredKeys: [] },
  )
  const target: fc.Arbitrary<XtTarget> = fc.oneof(
    plainRecord({ kind: fc.constantFrom('jump' as const, 'goto' as const), chain: name }),
    plainRecord({ kind: fc.constantFrom('accept' as const, 'drop' as const, 'return' as const) }),
    mark.map((fields): XtTarget => ({ kind: 'mark', ...fields })),
    plainRecord({ kind: fc.constant('dnat' as const), address, port: fc.integer({ min: 1, max: 0xffff }) }),
    plainRecord({ kind: fc.constant('masquerade' as const), isRandomFully: fc.boolean() }),
  )
  const protocol = fc.constantFrom('tcp' as const, 'udp' as const, 'sctp' as const)
  return fc
    .tuple(matches, target, fc.option(protocol, { nil: undefined }))
    .map(([rule, to, chosen]): XtRule => {
      const needsProtocol =
        rule.sourcePorts !== undefined || rule.destinationPorts !== undefined || to.kind === 'dnat'
      const used = chosen ?? (needsProtocol ? 'tcp' : undefined)
      return { ...rule, ...(used === undefined ? {} : { protocol: used }), target: to }
    })
}

describe('encodeXtBatch', () => {
  for (const family of ['ipv4', 'ipv6'] as const) {
    it(`keeps every field of every rule of ${family}`, () => {
      fc.assert(
        fc.property(fc.array(fc.array(anyRule(family), { maxLength: 4 }), { maxLength: 4 }), (chains) => {
          const ops = chains.map((rules, i) => set(`C${i}`, ...rules))
          const batch = encodeXtBatch(ops, { family, table: 'nat' })
          const cursor = new RuleCursor(batch.rules, batch.texts, family)
          assert.deepEqual(
            Array.from({ length: cursor.length }, (_, i) => cursor.rule(i)),
            chains.flat(),
          )
        }),
      )
    })
  }

  it('writes each operation with its rules', () => {
    const rule: XtRule = { target: { kind: 'jump', chain: 'B' } }
    const ops: readonly XtOp[] = [
      set('A', rule, rule),
      { op: 'remove-chain', chain: 'B' },
      { op: 'set-hook', chain: 'OUTPUT', rules: [rule] },
      set('A'),
    ]
    const batch = encodeXtBatch(ops, { family: 'ipv4', table: 'nat' })
    const cursor = new ChainCursor(batch.chains)
    assert.deepEqual(
      ops.map((_, i) => cursor.record(i)),
      [
        [0, 0, 2, 1],
        [1, 2, 0, 2],
        [2, 2, 1, 3],
        [0, 3, 0, 1],
      ],
    )
    assert.equal(Buffer.from(batch.texts).toString(), 'A\0B\0OUTPUT\0')
    assert.equal(batch.rules.length, 3 * layout.size)
  })

  it('is empty for an empty batch', () => {
    const { chains, rules, texts } = encodeXtBatch([], { family: 'ipv4', table: 'nat' })
    assert.deepEqual([chains.length, rules.length, texts.length], [0, 0, 0])
    assert.equal(encodeTexts([]).length, 0)
  })

  const v4 = ip('10.0.0.1')
  const v6 = ip('fd00::1')
  const bad: readonly (readonly [what: string, rule: XtRule, message: RegExp])[] = [
    [
      'a chain name of 29 characters',
      { target: { kind: 'jump', chain: 'K'.repeat(29) } },
      /"K{29}" is not a valid chain name \(at most 28/,
    ],
    ['an empty chain name', { target: { kind: 'goto', chain: '' } }, /"" is not a valid chain name/],
    [
      'a chain of the kernel',
      { target: { kind: 'jump', chain: 'OUTPUT' } },
      /jumps to OUTPUT, a built-in chain/,
    ],
    [
      'an interface of 16 characters',
      { inInterface: { name: 'sixteen-letters+' }, target: accept },
      /sixteen-letters\+/,
    ],
    [
      'an interface with a slash',
      { outInterface: { name: 'a/b' }, target: accept },
      /"a\/b" is not a valid interface/,
    ],
    [
      'a list of 200 characters',
      { recent: { list: 'L'.repeat(200), action: 'set' }, target: accept },
      /recent list/,
    ],
    ['a list with a slash', { recent: { list: '../x', action: 'set' }, target: accept }, /recent list/],
    [
      'a set of 32 characters',
      { set: { name: 's'.repeat(32), directions: ['src'] }, target: accept },
      /set name/,
    ],
    ['a set without dimensions', { set: { name: 's', directions: [] }, target: accept }, /0 dimensions/],
    [
      'a comment of 256 bytes',
      { comment: 'ü'.repeat(128), target: accept },
      /is not a valid comment \(at most 255 bytes\)/,
    ],
    ['a comment with a line end', { comment: 'a\nb', target: accept }, /is not a valid comment/],
    ['ports without a protocol', { destinationPorts: [80, 80], target: accept }, /without a protocol/],
    ['ports upside down', { protocol: 'tcp', sourcePorts: [81, 80], target: accept }, /81:80/],
    ['a port above 65535', { protocol: 'tcp', sourcePorts: [0, 65_536], target: accept }, /65536/],
    [
      'dnat without a protocol',
      { target: { kind: 'dnat', address: v4, port: 80 } },
      /dnat without a protocol/,
    ],
    [
      'dnat to port 0',
      { protocol: 'tcp', target: { kind: 'dnat', address: v4, port: 0 } },
      /0 is not a port/,
    ],
    [
      'dnat to the other family',
      { protocol: 'tcp', target: { kind: 'dnat', address: v6, port: 80 } },
      /fd00::1 is not an ipv4 address/,
    ],
    [
      'a source of the other family',
      { source: { address: v6, prefixLength: 32 }, target: accept },
      /fd00::1/,
    ],
    [
      'a prefix of 33',
      { destination: { address: v4, prefixLength: 33 }, target: accept },
      /10\.0\.0\.1\/33 is not a network/,
    ],
    ['a mark above 32 bits', { mark: { value: 2 ** 32, mask: 1 }, target: accept }, /4294967296/],
    ['a negative mask', { target: { kind: 'mark', value: 0, mask: -1 } }, /-1/],
    ['no state', { state: { bits: 0 }, target: accept }, /0 is not a state mask/],
    ['a probability of 1', { probability: 1, target: accept }, /1 is not a probability/],
    ['a probability of NaN', { probability: Number.NaN, target: accept }, /NaN is not a probability/],
    [
      'two sets',
      {
        set: { name: 'A', directions: ['dst'] },
        target: { kind: 'map-mark', set: { name: 'B', directions: ['dst'] } },
      },
      /names two sets, A and B/,
    ],
    ['reject in nat', { target: { kind: 'reject' } }, /reject is possible only in table filter/],
  ]
  for (const [what, rule, message] of bad) {
    it(`BugError names table, chain and rule: ${what}`, () => {
      const batch = [set('KUBE-A', { target: accept }), set('KUBE-B', { target: accept }, rule)]
      assert.throws(
        () => encodeXtBatch(batch, { family: 'ipv4', table: 'nat' }),
        (error: Error) => {
          assert.ok(error instanceof BugError)
          assert.match(error.message, /^ipv4 nat: KUBE-B: rule 2: /)
          assert.match(error.message, message)
          return true
        },
      )
    })
  }

  const nat: XtPlace = { family: 'ipv6', table: 'nat' }
  const badChains: readonly (readonly [what: string, op: XtOp, place: XtPlace, message: RegExp])[] = [
    ['a chain of the kernel that is set', set('OUTPUT'), nat, /OUTPUT: is a built-in chain of the kernel/],
    ['a chain of the kernel that is removed', { op: 'remove-chain', chain: 'INPUT' }, nat, /INPUT/],
    [
      'a hook that the table has not',
      { op: 'set-hook', chain: 'FORWARD', rules: [] },
      nat,
      /is not a hook of table nat/,
    ],
    ['a chain with a blank', set('KUBE A'), nat, /"KUBE A" is not a valid chain name/],
  ]
  for (const [what, op, place, message] of badChains) {
    it(`BugError: ${what}`, () => {
      assert.throws(() => encodeXtBatch([op], place), { name: 'BugError', message })
    })
  }
})

describe('describeXtRule', () => {
  it('leaves out a network that contains every address', () => {
    const source = { address: ip('0.0.0.0'), prefixLength: 0 }
    assert.equal(describeXtRule({ source, target: accept }, 'ipv4'), '-j ACCEPT')
  })
})
