// The encodings of flavour nft, and calls that other programs disturb. The kernel's view: test/kernel/xtables-nft-tools.test.ts.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../../src/address.js'
import { KernelError } from '../../../src/errors.js'
import type {
  NfExpression,
  NfOutcome,
  NfRule,
  NfTransaction,
  XtOp,
  XtRule,
} from '../../../src/kernel/index.js'
import type { NfApplyOptions } from '../../../src/kernel/testing.js'
import { describeXtRule, XtState } from '../../../src/kernel/index.js'
import { decodeXtRule } from '../../../src/kernel/xtables/nft/decode.js'
import { encodeXtRule } from '../../../src/kernel/xtables/nft/encode.js'
import { matches, targets } from '../../../src/kernel/xtables/nft/info.js'
import { NftXtables } from '../../../src/kernel/xtables/nft/nft-xtables.js'
import { RuleCodec } from '../../../src/kernel/xtables/nft/rules.js'
import { ruleKinds, setName } from '../../contract/xtables-kinds.js'
import { ModelNftables, ModelNftNamespace, openModelKernel } from '../../model/index.js'
import { ip } from '../../support/routes.js'

const setNumber = 7
const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'))

const bytes = (info: Uint8Array, from = 0): string => Buffer.from(info.subarray(from)).toString('hex')

function textOf(written: Pick<NfRule, 'expressions' | 'comment'>, family: IpFamily): string | undefined {
  const setOf = (index: number): string | undefined => (index === setNumber ? setName[family] : undefined)
  const rule = decodeXtRule(written, { family, setOf })
  return rule === undefined ? undefined : describeXtRule(rule, family)
}

const accept: NfExpression = {
  kind: 'immediate',
  to: 'verdict',
  data: { verdict: { code: 'accept' } },
}
const payload = (base: 'network' | 'transport', offset: number, length: number, to = 0): NfExpression => ({
  kind: 'payload',
  to,
  base,
  offset,
  length,
})
const meta = (key: 'l4proto' | 'mark' | 'iifname'): NfExpression => ({ kind: 'meta', to: 0, key })
const cmp = (value: string, op: '==' | '!=' | '<' = '==', from = 0): NfExpression => ({
  kind: 'cmp',
  from,
  op,
  value: hex(value),
})
const mask = (value: string, xor = ''): NfExpression => ({
  kind: 'bitwise',
  from: 0,
  to: 0,
  length: value.length / 2,
  mask: hex(value),
  xor: hex(xor.padEnd(value.length, '0')),
})
const tcp = [meta('l4proto'), cmp('06')]
const match = (name: string, revision: number, info: Uint8Array): NfExpression => ({
  kind: 'match',
  name,
  revision,
  info,
})
const comment = match('comment', 0, matches.comment.encode({ comment: 'a' }))

/** Rules as versions of iptables-nft write them, with target ACCEPT. undefined: not a rule that Viaduct writes. */
const encodings: readonly (readonly [
  what: string,
  family: IpFamily,
  expressions: readonly NfExpression[],
  text: string | undefined,
])[] = [
  ['protocol of the IPv4 header (1.8.10)', 'ipv4', [payload('network', 9, 1), cmp('06')], '-p tcp'],
  ['destination of 1 byte (1.8.7)', 'ipv4', [payload('network', 16, 1), cmp('0a')], '-d 10.0.0.0/8'],
  [
    'source of 3 bytes (1.8.7)',
    'ipv4',
    [payload('network', 12, 3), cmp('0a6001', '!=')],
    '! -s 10.96.1.0/24',
  ],
  [
    'whole address with a mask (1.8.4)',
    'ipv4',
    [payload('network', 16, 4), mask('ffffffff'), cmp('0a600001')],
    '-d 10.96.0.1/32',
  ],
  [
    'IPv6 prefix of 6 bytes (1.8.7)',
    'ipv6',
    [payload('network', 24, 6), cmp('fd0000960000')],
    '-d fd00:96::/48',
  ],
  [
    'native port (1.8.8)',
    'ipv4',
    [...tcp, payload('transport', 2, 2, 4), cmp('0050', '==', 4)],
    '-p tcp -m tcp --dport 80',
  ],
  [
    'both native ports in one comparison (1.8.8)',
    'ipv4',
    [...tcp, payload('transport', 0, 4), cmp('00350050')],
    '-p tcp -m tcp --sport 53 --dport 80',
  ],
  [
    'native range of ports (1.8.8)',
    'ipv6',
    [
      ...tcp,
      payload('transport', 0, 2),
      { kind: 'range', from: 0, op: '==', min: hex('0001'), max: hex('03ff') },
    ],
    '-p tcp -m tcp --sport 1:1023',
  ],
  [
    'native mark (1.8.8)',
    'ipv4',
    [meta('mark'), mask('00400000'), cmp('00400000')],
    '-m mark --mark 0x4000/0x4000',
  ],
  ['native mark of all bits (1.8.8)', 'ipv4', [meta('mark'), cmp('01000000', '!=')], '-m mark ! --mark 0x1'],
  ['interface of 16 bytes (nft)', 'ipv4', [meta('iifname'), cmp('65746830'.padEnd(32, '0'))], '-i eth0'],
  ['a match before the address', 'ipv4', [comment, ...tcp], '-p tcp -m comment --comment a'],
  [
    'a comment before a native mark (1.8.8)',
    'ipv4',
    [comment, meta('mark'), cmp('01000000')],
    '-m comment --comment a -m mark --mark 0x1',
  ],
  ['a comment after another match', 'ipv4', [meta('mark'), cmp('01000000'), comment], undefined],
  ['a mask with holes', 'ipv4', [payload('network', 16, 4), mask('ff00ff00'), cmp('0a000100')], undefined],
  [
    'bits outside of the mask',
    'ipv4',
    [payload('network', 16, 4), mask('ff000000'), cmp('0a000001')],
    undefined,
  ],
  ['a mask with exclusive or', 'ipv4', [meta('mark'), mask('00400000', '01'), cmp('00400000')], undefined],
  [
    'two destinations',
    'ipv4',
    [payload('network', 16, 1), cmp('0a'), payload('network', 16, 1), cmp('0a')],
    undefined,
  ],
  ['a port without a protocol', 'ipv4', [payload('transport', 2, 2), cmp('0050')], undefined],
  ['a port that is inverted', 'ipv4', [...tcp, payload('transport', 2, 2), cmp('0050', '!=')], undefined],
  ['a comparison by order', 'ipv4', [meta('mark'), cmp('01000000', '<')], undefined],
  ['another protocol', 'ipv4', [meta('l4proto'), cmp('01')], undefined],
  ['a comparison without a field', 'ipv4', [cmp('06')], undefined],
  ['flags of tcp', 'ipv4', [...tcp, match('tcp', 0, hex('0000ffff 0000ffff 00170200 00000000'))], undefined],
  ['a match of another revision', 'ipv4', [match('mark', 2, new Uint8Array(16))], undefined],
  ['an unknown match', 'ipv4', [match('physdev', 0, new Uint8Array(72))], undefined],
  [
    'a set that Viaduct does not name',
    'ipv4',
    [match('set', 4, matches.set.encode({ index: 8, dimensions: 1 }))],
    undefined,
  ],
  ['an expression without x_tables', 'ipv4', [{ kind: 'ct', to: 0, key: 'state' }], undefined],
]

describe('encodings of x_tables in nf_tables', () => {
  for (const family of ['ipv4', 'ipv6'] as const) {
    for (const table of ['nat', 'filter', 'mangle', 'raw'] as const) {
      it(`reads every kind of rule that it writes, ${family} ${table}`, () => {
        const kinds = ruleKinds(family, table)
        assert.ok(kinds.length > 0)
        for (const { rule, text } of kinds) {
          assert.equal(textOf(encodeXtRule(rule, { family, indexOf: () => setNumber }), family), text)
        }
      })
    }
  }

  for (const [what, family, expressions, text] of encodings) {
    it(`reads ${what}`, () => {
      const expected = text === undefined ? undefined : `${text} -j ACCEPT`
      assert.equal(textOf({ expressions: [...expressions, { kind: 'counter' }, accept] }, family), expected)
      assert.equal(textOf({ expressions }, family), undefined)
    })
  }

  it("writes a jump's comment beside the expressions, where nft and iptables-nft read it", () => {
    const rule: XtRule = {
      state: { bits: XtState.new },
      comment: 'a',
      target: { kind: 'jump', chain: 'KUBE-A' },
    }
    const written = encodeXtRule(rule, { family: 'ipv4', indexOf: () => setNumber })
    assert.equal(written.comment, 'a')
    assert.ok(!written.expressions.some((each) => each.kind === 'match' && each.name === 'comment'))
    assert.equal(textOf(written, 'ipv4'), '-m conntrack --ctstate NEW -m comment --comment a -j KUBE-A')
    const codec = new RuleCodec('ipv4', new Map())
    const found = { family: 'ipv4', table: 'filter', chain: 'INPUT', handle: 1 } as const
    assert.equal(codec.textOf({ ...found, ...written }), codec.encode(rule).text)
    // As iptables-nft writes it: nft 1.1.7 lists such a rule in a form that nft does not load.
    const { expressions } = written
    const last = expressions.slice(-2)
    const asMatch = { ...found, expressions: [...expressions.slice(0, -2), comment, ...last] }
    assert.equal(codec.textOf(asMatch), undefined)
  })

  it('writes a rule of kube-proxy as iptables-nft 1.8.4 does', () => {
    const encoded = encodeXtRule(
      {
        protocol: 'tcp',
        destination: { address: ip('10.96.0.77'), prefixLength: 28 },
        destinationPorts: [80, 80],
        target: { kind: 'jump', chain: 'KUBE-SVC-A' },
      },
      { family: 'ipv4', indexOf: () => setNumber },
    )
    assert.deepEqual(encoded, {
      expressions: [
        ...tcp,
        payload('network', 16, 4),
        mask('fffffff0'),
        cmp('0a600040'),
        match('tcp', 0, hex('0000ffff 50005000 00000000 00000000')),
        { kind: 'counter' },
        { kind: 'immediate', to: 'verdict', data: { verdict: { code: 'jump', chain: 'KUBE-SVC-A' } } },
      ],
      compat: { protocol: 6 },
    })
  })

  it('writes structures with the bytes of the headers', () => {
    const range = { address: hex('0af40105'.padEnd(32, '0')), port: 8080 }
    assert.equal(
      bytes(matches.mark.encode({ value: 0x4000, mask: 0x4000 })),
      '00400000004000000000000000000000',
    )
    assert.equal(
      bytes(matches.conntrack.encode({ states: 0x86, isInverted: 1 }), 144).slice(0, 20),
      '00000100010086000000',
    )
    assert.equal(bytes(targets.MARK.encode({ value: 0x4000, mask: 0 })), '0040000000000000')
    assert.equal(
      bytes(targets.DNAT.encode({ ...range, lastAddress: range.address, lastPort: range.port })),
      `03000000${'0af40105'.padEnd(32, '0').repeat(2)}1f901f90${'0'.repeat(16)}`,
    )
    assert.equal(
      bytes(targets['MASQUERADE ipv4'].encode({ flags: 0x10 })),
      `0100000010000000${'0'.repeat(32)}`,
    )
    assert.equal(
      bytes(targets.SET.encode({ index: 7, dimensions: 2 })),
      'ffff0000ffff00000700020000010000ffffffff00000000',
    )
  })
})

const setChain = (...marks: readonly number[]): XtOp => ({
  op: 'set-chain',
  chain: 'KUBE-A',
  rules: marks.map((value) => ({ target: { kind: 'mark', value, mask: value } })),
})

/** A kernel to which another program commits before each of the next transactions. */
class DisturbedNftables extends ModelNftables {
  disturbances = 0

  override async apply(transaction: NfTransaction, options?: NfApplyOptions): Promise<NfOutcome> {
    if (this.disturbances > 0) {
      this.disturbances--
      const table = { family: 'ipv6', table: `other-${this.disturbances}` } as const
      await new ModelNftables(this.namespace).apply([{ op: 'add-table', table }])
    }
    return await super.apply(transaction, options)
  }
}

function open(): readonly [NftXtables, DisturbedNftables] {
  const nftables = new DisturbedNftables(new ModelNftNamespace())
  const { ipset } = openModelKernel()
  return [new NftXtables({ family: 'ipv4', table: 'nat' }, nftables, ipset), nftables]
}

describe('NftXtables beside a program that commits', () => {
  it('starts again when another program commits between read and write', async () => {
    const [xtables, nftables] = open()
    nftables.disturbances = 3
    const { isWritten, repeats } = await xtables.apply([setChain(1)])
    assert.deepEqual([isWritten, repeats], [true, 3])
    assert.equal(await xtables.check(), true)
  })

  it('gives up after 20 repeats, and a later apply writes what is desired', async () => {
    const [xtables, nftables] = open()
    nftables.disturbances = 21
    await assert.rejects(xtables.apply([setChain(1)]), { code: 'EAGAIN', object: 'ipv4 nat' })
    assert.equal(await xtables.check(), false)
    const { isWritten } = await xtables.apply([])
    assert.equal(isWritten, true)
    assert.deepEqual(await xtables.chains(), [{ chain: 'KUBE-A' }])
  })

  it('names each transaction by the generation that it read, and writes one transaction', async () => {
    const [xtables, nftables] = open()
    await xtables.apply([setChain(1, 2, 3)])
    await xtables.apply([setChain(1, 3, 4)])
    await xtables.apply([])
    const written = nftables.transactions.map((ops) => ops.map(({ op }) => op))
    assert.deepEqual(written, [
      ['add-table', 'add-chain', 'add-rule', 'add-rule', 'add-rule'],
      ['delete-rule', 'add-rule'],
    ])
  })

  it('check reads the table only if nf_tables has changed', async () => {
    const [xtables, nftables] = open()
    await xtables.apply([setChain(1)])
    let reads = 0
    const chains = nftables.chains.bind(nftables)
    nftables.chains = async (scope) => {
      reads++
      return await chains(scope)
    }
    assert.deepEqual([await xtables.check(), reads], [true, 0])
    const table = { family: 'ipv4', table: 'other' } as const
    await new ModelNftables(nftables.namespace).apply([{ op: 'add-table', table }])
    assert.deepEqual([await xtables.check(), reads], [true, 1])
    assert.deepEqual([await xtables.check(), reads], [true, 1])
  })

  it('throws the error of an absent set, and names the rules in its refusals', async () => {
    const [xtables, nftables] = open()
    const rule = { set: { name: 'none', directions: ['dst'] }, target: { kind: 'accept' } } as const
    const ops: readonly XtOp[] = [
      { op: 'set-chain', chain: 'KUBE-A', rules: [{ target: { kind: 'return' } }, rule] },
    ]
    await assert.rejects(xtables.apply(ops), { code: 'ENOENT', object: 'ipv4 nat KUBE-A' })
    const refusals = await xtables.refusals()
    assert.deepEqual(
      refusals.map(({ chain, rule: index, error }) => `${chain} ${index} ${error.code}`),
      ['KUBE-A 1 ENOENT'],
    )
    assert.deepEqual(nftables.transactions, [])
  })
})

const fail = (errno: number) => async (): Promise<never> => {
  throw new KernelError({ errno, subsystem: 'nftables', operation: 'dump nf_tables tables' })
}

describe('activeTables of flavour nft', () => {
  it('names the tables of x_tables that exist in nf_tables, and none without nf_tables', async () => {
    const kernel = openModelKernel()
    assert.deepEqual(await kernel.activeTables('ipv4', 'nft'), [])
    for (const table of ['filter', 'nat', 'kube-proxy'])
      await kernel.nftables.apply([{ op: 'add-table', table: { family: 'ipv4', table } }])
    assert.deepEqual(await kernel.activeTables('ipv4', 'nft'), ['nat', 'filter'])
    assert.deepEqual(await kernel.activeTables('ipv6', 'nft'), [])
    for (const errno of [constants.errno.EINVAL, constants.errno.EPROTONOSUPPORT]) {
      kernel.nftables.tables = fail(errno)
      assert.deepEqual(await kernel.activeTables('ipv4', 'nft'), [])
    }
    kernel.nftables.tables = fail(constants.errno.EPERM)
    await assert.rejects(kernel.activeTables('ipv4', 'nft'), { code: 'EPERM' })
  })
})
