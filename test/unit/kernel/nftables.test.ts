import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BugError } from '../../../src/errors.js'
import { anonymousSet } from '../../../src/kernel/nftables/anonymous-sets.js'
import { isSameRule, readSet, setAttributes } from '../../../src/kernel/nftables/attributes.js'
import { decodeChanges } from '../../../src/kernel/nftables/changes.js'
import { decodeOutcome } from '../../../src/kernel/nftables/decode-outcome.js'
import { NfElements } from '../../../src/kernel/nftables/elements.js'
import type { NfExpression } from '../../../src/kernel/nftables/expressions.js'
import { packFields } from '../../../src/kernel/nftables/fields.js'
import type { NfRule, NfRuleState, NfSet } from '../../../src/kernel/nftables/nftables.js'
import { printTransaction } from '../../../src/kernel/nftables/print.js'
import { printTime } from '../../../src/kernel/nftables/print-values.js'
import { StreamReader, StreamWriter } from '../../../src/kernel/nftables/stream.js'

const table = { family: 'ipv4', table: 't' } as const
const chain = { ...table, chain: 'c' }
const addresses: NfSet = { ...table, set: 's', key: ['ipv4_addr'] }

function found(...expressions: readonly NfExpression[]): NfRuleState {
  return { ...chain, handle: 1, expressions }
}

function rule(...expressions: readonly NfExpression[]): NfRule {
  return { ...chain, expressions }
}

function print(...expressions: readonly NfExpression[]): string {
  return printTransaction([{ op: 'add-rule', rule: rule(...expressions) }]).trim()
}

function hex(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString('hex')
}

describe('userdata of sets', () => {
  // NFTA_SET_USERDATA of nft 1.0.6, without its entry 6, which means that the data is not an interval.
  const cases: readonly (readonly [string, NfSet, string])[] = [
    [
      'an index of endpoints',
      {
        ...table,
        set: 'a',
        key: ['ip daddr', 'meta l4proto', 'th dport', 'numgen random mod 2'],
        data: ['ip daddr', 'th dport'],
      },
      '000400000000010400000000036000040d00000001580014000407000000010c00040c00000001040c000000010e00040900000001060004100000000214000407000000010c00040b000000010402000000031a0004170000000112000401000000010402000000020400000000043400040d000000012c0014000407000000010c00040c00000001040c0000000114000407000000010c00040b000000010402000000',
    ],
    [
      'the same of IPv6',
      {
        ...table,
        family: 'ipv6',
        set: 'a',
        key: ['ip6 daddr', 'meta l4proto', 'th dport', 'numgen random mod 2'],
        data: ['ip6 daddr', 'th dport'],
      },
      '000400000000010400000000036000040d00000001580014000407000000010c00040d000000010409000000010e00040900000001060004100000000214000407000000010c00040b000000010402000000031a0004170000000112000401000000010402000000020400000000043400040d000000012c0014000407000000010c00040d0000000104090000000114000407000000010c00040b000000010402000000',
    ],
    ['one field', addresses, '000402000000'],
    [
      'a comment',
      { ...table, set: 'd', key: ['ip saddr', 'ip daddr', 'meta l4proto', 'th dport'], comment: 'hello' },
      '000400000000035a00040d00000001520014000407000000010c00040c00000001040b0000000114000407000000010c00040c00000001040c000000020e00040900000001060004100000000314000407000000010c00040b000000010402000000070668656c6c6f00',
    ],
  ]
  for (const [what, set, expected] of cases)
    it(`equals that of nft: ${what}`, () => assert.equal(hex(setAttributes(set).userdata), expected))

  it('packs the types of a concatenation', () => {
    const { keyType, keyLength } = setAttributes({
      ...addresses,
      key: ['ipv4_addr', 'inet_proto', 'inet_service'],
    })
    assert.deepEqual([keyType, keyLength], [0x730d, 12])
  })
})

describe('packFields', () => {
  it('pads each field and keeps the order of its type', () => {
    assert.equal(
      hex(packFields(['ipv4_addr', 'inet_proto', 'inet_service'], ['10.0.0.1', 6, 443])),
      '0a0000010600000001bb0000',
    )
    assert.equal(hex(packFields(['mark'], [0x4000])), '00400000')
    assert.equal(hex(packFields(['inet_service'], [80])), '0050')
    assert.equal(hex(packFields(['ipv6_addr'], ['fd00::1'])), 'fd000000000000000000000000000001')
    assert.equal(hex(packFields(['ifname'], ['lo'])), `6c6f${'00'.repeat(14)}`)
  })
  for (const [field, value] of [
    ['ipv4_addr', 'fd00::1'],
    ['ipv6_addr', '10.0.0.1'],
    ['ipv4_addr', 'here'],
    ['inet_service', 65_536],
    ['inet_proto', 256],
    ['ipv6_addr', 1],
  ] as const)
    it(`refuses ${value} as ${field}`, () => assert.throws(() => packFields([field], [value]), BugError))
  it('refuses another number of values', () =>
    assert.throws(() => packFields(['mark'], [1, 2]), /2 values for the 1 fields mark/))
})

describe('NfElements', () => {
  it('refuses keys and data of another length', () => {
    const map = new NfElements({ ...addresses, data: ['mark'] })
    assert.throws(() => map.add(new Uint8Array(3)), /a key of 3 bytes in s, where it has 4/)
    assert.throws(() => map.add(new Uint8Array(4)), /a data of 0 bytes in s, where it has 4/)
    assert.throws(
      () => new NfElements({ ...addresses, data: 'verdict' }).add(new Uint8Array(4)),
      /needs a verdict/,
    )
  })
  it('the end of an interval has no data', () => {
    const ranges: NfSet = { ...addresses, flags: ['interval'] }
    const end = { isIntervalEnd: true }
    for (const data of ['verdict', 'counter'] as const) {
      const elements = new NfElements({ ...ranges, data }).add(new Uint8Array(4), end)
      assert.deepEqual([elements.labels.length, elements.isIntervalEnd(0)], [0, true])
      const read = (): unknown => (data === 'verdict' ? elements.verdict(0) : elements.counter(0))
      assert.throws(read, /element 0 of s ends an interval and has no data/)
    }
    assert.throws(
      () => new NfElements(addresses).add(new Uint8Array(4), end),
      /the end of an interval in s, which has no intervals of one field/,
    )
  })
  it('throws for an index beyond the end', () => {
    const elements = new NfElements(addresses).add(new Uint8Array(4))
    assert.throws(() => elements.key(1), RangeError)
  })
  it('stores equal verdicts once', () => {
    const elements = new NfElements({ ...addresses, data: 'verdict' })
    for (let index = 0; index < 100; index++)
      elements.add(new Uint8Array(4), { verdict: { code: 'goto', chain: `c${index % 2}` } })
    assert.equal(elements.labels.length, 2)
    assert.deepEqual(elements.verdict(99), { code: 'goto', chain: 'c1' })
  })
})

const numgen: NfExpression = { kind: 'numgen', to: 0, modulus: 2, type: 'random' }
function vmap(set: string, ...targets: readonly string[]): NfExpression {
  const elements = new NfElements(anonymousSet(table, { key: ['integer'], data: 'verdict' }))
  for (const [at, to] of targets.entries())
    elements.add(packFields(['integer'], [at]), { verdict: { code: 'goto', chain: to } })
  return { kind: 'lookup', set, from: 0, to: 'verdict', elements }
}

describe('isSameRule', () => {
  const dnat = { kind: 'nat', type: 'dnat', family: 'ipv4' } as const
  const cases: readonly (readonly [string, NfExpression, NfExpression, boolean])[] = [
    ['packets that it counted', { kind: 'counter' }, { kind: 'counter', packets: 7, bytes: 420 }, true],
    [
      'a range of one',
      { ...dnat, addressMin: 0, addressMax: 0, portMin: 1, portMax: 1 },
      { ...dnat, addressMin: 0, portMin: 1 },
      true,
    ],
    ['flags that registers imply', { ...dnat, addressMin: 0, flags: 1 }, { ...dnat, addressMin: 0 }, true],
    ['flags that they do not', { ...dnat, addressMin: 0, flags: 4 }, { ...dnat, addressMin: 0 }, false],
    ['another register', { ...dnat, addressMin: 4 }, { ...dnat, addressMin: 0 }, false],
    [
      'a default that is written',
      { kind: 'lookup', set: 's', from: 0, flags: 0 },
      { kind: 'lookup', set: 's', from: 0 },
      true,
    ],
  ]
  it('ignores the name of an anonymous set, and sees other elements or none', () => {
    const wanted = rule(numgen, vmap('__map%d', 'a', 'b'))
    assert.ok(isSameRule(wanted, found(numgen, vmap('__map7', 'a', 'b'))))
    assert.ok(!isSameRule(wanted, found(numgen, vmap('__map7', 'b', 'a'))))
    assert.ok(!isSameRule(wanted, found(numgen, vmap('__map7', 'a'))))
    assert.ok(!isSameRule(wanted, found(numgen, { kind: 'lookup', set: '__map7', from: 0, to: 'verdict' })))
  })
  for (const [what, wanted, shown, isSame] of cases)
    it(`${isSame ? 'ignores' : 'sees'} ${what}`, () =>
      assert.equal(isSameRule(rule(wanted), found(shown)), isSame))
})

describe('readSet', () => {
  for (const set of [
    { ...addresses, key: ['ipv4_addr', 'inet_proto', 'inet_service'], data: ['ipv4_addr', 'inet_service'] },
    { ...addresses, data: 'verdict', flags: ['anonymous', 'constant'], size: 3 },
    { ...addresses, data: 'counter', flags: ['interval'] },
    {
      ...addresses,
      key: ['ipv6_addr', 'mark'],
      flags: ['timeout', 'dynamic'],
      timeoutMs: 5,
      gcIntervalMs: 6,
    },
  ] satisfies readonly NfSet[])
    it(`reads what setAttributes() writes: ${JSON.stringify(set)}`, () =>
      assert.deepEqual(readSet('ipv4', setAttributes(set)), set))
  it('does not read fields that it does not know', () => {
    const attributes = setAttributes(addresses)
    assert.equal(readSet('ipv4', { ...attributes, keyType: 63 }), undefined)
    assert.equal(readSet('ipv4', { ...attributes, keyLength: 8 }), undefined)
    assert.equal(readSet('ipv4', { ...attributes, flags: 8, dataType: 63, dataLength: 4 }), undefined)
  })
})

describe('printTransaction', () => {
  const load: NfExpression = { kind: 'payload', to: 0, base: 'network', offset: 12, length: 4 }
  const cases: readonly (readonly [string, readonly NfExpression[]])[] = [
    [
      'jhash ip saddr mod 5 seed 0xdeadbeef 1',
      [
        load,
        { kind: 'hash', from: 0, to: 4, length: 4, modulus: 5, seed: 0xdeadbeef },
        { kind: 'cmp', from: 4, op: '==', value: Uint8Array.of(1, 0, 0, 0) },
      ],
    ],
    ['[log]', [{ kind: 'other', name: 'log', data: new Uint8Array(4) }]],
    ['[xt match "comment"]', [{ kind: 'match', name: 'comment', revision: 0, info: new Uint8Array(256) }]],
    [
      '@nh,16,16 0x0064',
      [
        { kind: 'payload', to: 0, base: 'network', offset: 2, length: 2 },
        { kind: 'cmp', from: 0, op: '==', value: Uint8Array.of(0, 100) },
      ],
    ],
    [
      'masquerade to :1024-2048',
      [
        { kind: 'immediate', to: 0, data: { value: Uint8Array.of(4, 0) } },
        { kind: 'immediate', to: 4, data: { value: Uint8Array.of(8, 0) } },
        { kind: 'masq', portMin: 0, portMax: 4 },
      ],
    ],
    ['[register 3] 0x01', [{ kind: 'cmp', from: 3, op: '==', value: Uint8Array.of(1) }]],
  ]
  for (const [expected, expressions] of cases)
    it(expected, () => assert.equal(print(...expressions), `add rule ip t c ${expected}`))

  it('writes each kind of command', () => {
    const set: NfSet = {
      ...addresses,
      flags: ['interval', 'timeout'],
      timeoutMs: 90_000,
      size: 10,
      comment: 'a "set"',
    }
    const elements = new NfElements({ ...addresses, flags: ['timeout'] }).add(
      packFields(['ipv4_addr'], ['10.0.0.1']),
      {
        timeoutMs: 5000,
        expirationMs: 1000,
      },
    )
    const text = printTransaction([
      { op: 'create-table', table: { ...table, flags: ['owner', 'persist'] } },
      { op: 'delete-table', table },
      { op: 'flush-table', table },
      { op: 'flush-chain', chain },
      { op: 'delete-chain', chain },
      { op: 'add-set', set },
      { op: 'flush-set', set },
      { op: 'delete-set', set },
      { op: 'create-elements', elements },
      { op: 'delete-elements', elements },
      { op: 'delete-rule', rule: chain, handle: 7 },
      { op: 'replace-rule', rule: { ...chain, expressions: [{ kind: 'counter' }] }, handle: 7 },
      { op: 'insert-rule', rule: { ...chain, expressions: [{ kind: 'counter' }] }, before: 7 },
      { op: 'delete-counter', counter: { ...table, counter: 'n' } },
    ])
    assert.deepEqual(text.trim().split('\n'), [
      'create table ip t { flags owner,persist ; }',
      'delete table ip t',
      'flush table ip t',
      'flush chain ip t c',
      'delete chain ip t c',
      `add set ip t s { type ipv4_addr ; size 10 ; flags interval,timeout ; timeout 1m30s ; comment "a 'set'" ; }`,
      'flush set ip t s',
      'delete set ip t s',
      'create element ip t s { 10.0.0.1 timeout 5s expires 1s }',
      'delete element ip t s { 10.0.0.1 timeout 5s }',
      'delete rule ip t c handle 7',
      'replace rule ip t c handle 7 counter',
      'insert rule ip t c position 7 counter',
      'delete counter ip t n',
    ])
  })
  it('writes times in the largest units', () => {
    assert.deepEqual([0, 1, 61_000, 90_000_000].map(printTime), ['0s', '1ms', '1m1s', '1d1h'])
  })
})

describe('streams', () => {
  it('keep numbers up to 2^53 and the length of bytes', () => {
    const writer = new StreamWriter(1)
    writer.u64(2 ** 53 - 1)
    writer.bytes(Uint8Array.of(1, 2, 3, 4, 5))
    writer.text('é')
    const reader = new StreamReader(writer.finish())
    assert.equal(reader.u64(), 2 ** 53 - 1)
    assert.deepEqual([...reader.bytes()], [1, 2, 3, 4, 5])
    assert.equal(reader.text(), 'é')
    assert.ok(reader.isAtEnd)
    assert.throws(() => reader.u32(), { code: 'EPROTO' })
  })
  it('of an outcome name operation and element', () => {
    const writer = new StreamWriter()
    for (const word of [1, 0, 2, 0, 3, 17]) writer.u32(word)
    writer.text('')
    for (const word of [0xffffffff, 0xffffffff, 85]) writer.u32(word)
    writer.text('words')
    writer.u32(1)
    writer.u32(0)
    writer.u64(9)
    const outcome = decodeOutcome(writer.finish(), [{ op: 'delete-table', table }])
    assert.equal(outcome.state, 'refused')
    assert.deepEqual(
      outcome.failures.map(({ operation, element, error }) => [operation, element, error.message]),
      [
        [0, 3, 'nftables: delete table ip t: EEXIST'],
        [undefined, undefined, 'nftables: commit nf_tables transaction: ERESTART (words)'],
      ],
    )
    assert.deepEqual([...outcome.handles], [[0, 9]])
  })
  it('of events have lost events before changes', () => {
    const writer = new StreamWriter()
    for (const word of [1, 5, 42]) writer.u32(word)
    writer.text('nft')
    for (const word of [1, 4, 10]) writer.u32(word)
    writer.text('t')
    writer.text('s')
    assert.deepEqual(decodeChanges(writer.finish()), [
      { kind: 'overrun' },
      {
        kind: 'transaction',
        generation: 5,
        pid: 42,
        program: 'nft',
        objects: [{ kind: 'elements', family: 'ipv6', table: 't', name: 's' }],
      },
    ])
  })
})
