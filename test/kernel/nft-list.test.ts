// The nft tool lists the objects of our transactions. It also accepts the printed form of a transaction, with the same result.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  anonymousSet,
  isSameRule,
  NfElements,
  type NfExpression,
  type NfOp,
  type NfSet,
  type Nftables,
  type NfTransaction,
  packFields,
  printTransaction,
} from '../../src/kernel/index.js'
import type { NfElementExtras } from '../../src/kernel/testing.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { mustRun } from '../support/processes.js'

requireFreshNamespace()

const table = { family: 'ipv4', table: 'kube-proxy' } as const
const frontends: NfSet = {
  ...table,
  set: 'service-ips',
  key: ['ipv4_addr', 'inet_proto', 'inet_service'],
  data: ['mark'],
  comment: 'chains by frontend',
}
const endpoints: NfSet = {
  ...table,
  set: 'service-endpoints',
  key: ['ip daddr', 'meta l4proto', 'th dport', 'numgen random mod 2'],
  data: ['ip daddr', 'th dport'],
}
const affinity: NfSet = {
  ...table,
  set: 'affinity',
  key: ['ip saddr', 'ip daddr', 'meta l4proto', 'th dport'],
  data: ['ip daddr', 'th dport'],
  flags: ['timeout', 'dynamic'],
  size: 65_535,
}
const clients: NfSet = {
  ...table,
  set: 'clients',
  key: ['ipv4_addr', 'mark'],
  flags: ['timeout', 'dynamic'],
  size: 262_144,
  gcIntervalMs: 60_000,
}
const ranges: NfSet = { ...table, set: 'ranges', key: ['ipv4_addr'], flags: ['interval'] }
const zoneMarks: NfSet = { ...ranges, set: 'zone-marks', data: ['mark'] }
const zones: NfSet = { ...ranges, set: 'zones', data: 'verdict' }
const zoneDrops: NfSet = { ...ranges, set: 'zone-drops', data: 'counter' }
const dispatch: NfSet = { ...table, set: 'dispatch', key: ['inet_service'], data: 'verdict' }
const counted: NfSet = { ...table, set: 'counted', key: ['ipv4_addr'], isCounting: true }

const output = { ...table, chain: 'nat-output' }
const cluster = { ...table, chain: 'cluster-2' }
const post = { ...table, chain: 'nat-postrouting' }
const filter = { ...table, chain: 'filter-input' }

const daddr: NfExpression = { kind: 'payload', to: 0, base: 'network', offset: 16, length: 4 }
const keys: readonly NfExpression[] = [
  daddr,
  { kind: 'meta', to: 1, key: 'l4proto' },
  { kind: 'payload', to: 2, base: 'transport', offset: 2, length: 2 },
]
const mark = (number: number): Uint8Array => packFields(['mark'], [number])
const number = (...bytes: readonly number[]): Uint8Array => Uint8Array.from(bytes)
const verdict = (code: 'goto' | 'jump' | 'accept' | 'drop' | 'return', chain?: string): NfExpression => ({
  kind: 'immediate',
  to: 'verdict',
  data: { verdict: { code, ...(chain === undefined ? {} : { chain }) } },
})
const address = (text: string): Uint8Array => packFields(['ipv4_addr'], [text])

const numgen: NfExpression = { kind: 'numgen', to: 0, modulus: 2, type: 'random' }
/** Client and slot: a constant in a key. */
const slot = (constant: number): readonly NfExpression[] => [
  { kind: 'payload', to: 0, base: 'network', offset: 12, length: 4 },
  { kind: 'meta', to: 1, key: 'mark' },
  { kind: 'bitwise', from: 1, to: 1, length: 4, mask: mark(0), xor: mark(constant) },
]
const choiceKey = (value: number): Uint8Array => packFields(['integer'], [value])
const choice = new NfElements(anonymousSet(table, { key: ['integer'], data: 'verdict' }))
  .add(choiceKey(0), { verdict: { code: 'goto', chain: 'cluster-2' } })
  .add(choiceKey(1), { verdict: { code: 'goto', chain: 'firewall' } })
const targets = new NfElements(anonymousSet(table, { key: ['integer'], data: ['ipv4_addr', 'inet_service'] }))
  .add(choiceKey(0), { data: packFields(['ipv4_addr', 'inet_service'], ['10.244.1.1', 8080]) })
  .add(choiceKey(1), { data: packFields(['ipv4_addr', 'inet_service'], ['10.244.1.2', 8080]) })

/** Rules that nft 1.0.6 lists, but refuses in a file. */
const listedOnly = /^(ip daddr .* map @service-ips 0x|update @affinity)/

/** Chain, text of the rule in nft's listing, expressions of the rule. */
const rules: readonly (readonly [typeof output, string, readonly NfExpression[]])[] = [
  [
    output,
    'ip daddr . meta l4proto . th dport map @service-ips 0x2000000 [invalid type] goto cluster-2',
    [
      ...keys,
      { kind: 'lookup', set: 'service-ips', from: 0, to: 0 },
      { kind: 'cmp', from: 0, op: '==', value: mark(2) },
      verdict('goto', 'cluster-2'),
    ],
  ],
  [
    output,
    'ip daddr != 10.96.0.0-10.96.255.255 counter packets 0 bytes 0 jump cluster-2',
    [
      daddr,
      { kind: 'range', from: 0, op: '!=', min: address('10.96.0.0'), max: address('10.96.255.255') },
      { kind: 'counter' },
      verdict('jump', 'cluster-2'),
    ],
  ],
  [
    cluster,
    'dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @service-endpoints',
    [
      ...keys,
      { kind: 'numgen', to: 3, modulus: 2, type: 'random' },
      { kind: 'lookup', set: 'service-endpoints', from: 0, to: 0 },
      { kind: 'nat', type: 'dnat', family: 'ipv4', addressMin: 0, portMin: 1 },
    ],
  ],
  [
    cluster,
    'meta l4proto tcp dnat to 10.244.1.5:8080',
    [
      { kind: 'meta', to: 0, key: 'l4proto' },
      { kind: 'cmp', from: 0, op: '==', value: number(6) },
      { kind: 'immediate', to: 0, data: { value: address('10.244.1.5') } },
      { kind: 'immediate', to: 4, data: { value: number(0x1f, 0x90) } },
      { kind: 'nat', type: 'dnat', family: 'ipv4', addressMin: 0, portMin: 4 },
    ],
  ],
  [
    post,
    'meta mark & 0x00004000 == 0x00000000 return',
    [
      { kind: 'meta', to: 0, key: 'mark' },
      { kind: 'bitwise', from: 0, to: 0, length: 4, mask: mark(0x4000), xor: mark(0) },
      { kind: 'cmp', from: 0, op: '==', value: mark(0) },
      verdict('return'),
    ],
  ],
  [
    post,
    'meta mark set meta mark & 0xffffbfff',
    [
      { kind: 'meta', to: 0, key: 'mark' },
      { kind: 'bitwise', from: 0, to: 0, length: 4, mask: mark(0xffffbfff), xor: mark(0) },
      { kind: 'meta', key: 'mark', from: 0 },
    ],
  ],
  [
    post,
    'meta mark set meta mark | 0x00004000',
    [
      { kind: 'meta', to: 0, key: 'mark' },
      { kind: 'bitwise', from: 0, to: 0, length: 4, mask: mark(0xffffbfff), xor: mark(0x4000) },
      { kind: 'meta', key: 'mark', from: 0 },
    ],
  ],
  [post, 'masquerade fully-random', [{ kind: 'masq', flags: 16 }]],
  [
    filter,
    'ct state new ct status dnat ip daddr @counted accept',
    [
      { kind: 'ct', to: 0, key: 'state' },
      { kind: 'bitwise', from: 0, to: 0, length: 4, mask: number(8, 0, 0, 0), xor: mark(0) },
      { kind: 'cmp', from: 0, op: '!=', value: mark(0) },
      { kind: 'ct', to: 0, key: 'status' },
      { kind: 'bitwise', from: 0, to: 0, length: 4, mask: number(32, 0, 0, 0), xor: mark(0) },
      { kind: 'cmp', from: 0, op: '!=', value: mark(0) },
      daddr,
      { kind: 'lookup', set: 'counted', from: 0 },
      verdict('accept'),
    ],
  ],
  [
    filter,
    'ip saddr != 198.51.100.0/24 drop',
    [
      { kind: 'payload', to: 0, base: 'network', offset: 12, length: 4 },
      { kind: 'bitwise', from: 0, to: 0, length: 4, mask: address('255.255.255.0'), xor: mark(0) },
      { kind: 'cmp', from: 0, op: '!=', value: address('198.51.100.0') },
      verdict('drop'),
    ],
  ],
  [
    filter,
    'ip daddr != @ranges fib daddr type local th dport vmap @dispatch',
    [
      daddr,
      { kind: 'lookup', set: 'ranges', from: 0, flags: 1 },
      { kind: 'fib', to: 0, result: 'type', flags: 2 },
      { kind: 'cmp', from: 0, op: '==', value: number(2, 0, 0, 0) },
      { kind: 'payload', to: 0, base: 'transport', offset: 2, length: 2 },
      { kind: 'lookup', set: 'dispatch', from: 0, to: 'verdict' },
    ],
  ],
  [
    filter,
    'update @affinity { ip saddr . ct original ip daddr . meta l4proto . ct original proto-dst timeout 3h : ip daddr . th dport }',
    [
      { kind: 'payload', to: 0, base: 'network', offset: 12, length: 4 },
      { kind: 'ct', to: 1, key: 'ip daddr', direction: 0 },
      { kind: 'meta', to: 2, key: 'l4proto' },
      { kind: 'ct', to: 3, key: 'proto-dst', direction: 0 },
      { kind: 'payload', to: 4, base: 'network', offset: 16, length: 4 },
      { kind: 'payload', to: 5, base: 'transport', offset: 2, length: 2 },
      { kind: 'dynset', set: 'affinity', op: 'update', key: 0, data: 4, timeoutMs: 10_800_000 },
    ],
  ],
  [
    filter,
    'iifname "cali*" limit rate 5/minute burst 7 packets counter name "drops" drop',
    [
      { kind: 'meta', to: 0, key: 'iifname' },
      { kind: 'cmp', from: 0, op: '==', value: new TextEncoder().encode('cali') },
      { kind: 'limit', rate: 5, perSeconds: 60, burst: 7 },
      { kind: 'objref', type: 1, name: 'drops' },
      verdict('drop'),
    ],
  ],
  [
    output,
    'numgen random mod 2 vmap { 0 : goto cluster-2, 1 : goto firewall }',
    [numgen, { kind: 'lookup', set: choice.set.set, from: 0, to: 'verdict', elements: choice }],
  ],
  [
    output,
    'meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.244.1.1 . 8080, 1 : 10.244.1.2 . 8080 }',
    [
      { kind: 'meta', to: 0, key: 'l4proto' },
      { kind: 'cmp', from: 0, op: '==', value: number(6) },
      numgen,
      { kind: 'lookup', set: targets.set.set, from: 0, to: 0, elements: targets },
      { kind: 'nat', type: 'dnat', family: 'ipv4', addressMin: 0, portMin: 1 },
    ],
  ],
  [
    output,
    'ip saddr . meta mark & 0x00000011 | 0x00000011 @clients update @clients { ip saddr . meta mark & 0x00000011 | 0x00000011 timeout 3h } meta l4proto tcp dnat to 10.244.1.61:8080',
    [
      ...slot(17),
      { kind: 'lookup', set: 'clients', from: 0 },
      ...slot(17),
      { kind: 'dynset', set: 'clients', op: 'update', key: 0, timeoutMs: 10_800_000 },
      { kind: 'meta', to: 0, key: 'l4proto' },
      { kind: 'cmp', from: 0, op: '==', value: number(6) },
      { kind: 'immediate', to: 0, data: { value: address('10.244.1.61') } },
      { kind: 'immediate', to: 4, data: { value: number(0x1f, 0x90) } },
      { kind: 'nat', type: 'dnat', family: 'ipv4', addressMin: 0, portMin: 4 },
    ],
  ],
  [filter, 'reject with icmp admin-prohibited', [{ kind: 'reject', type: 'icmp', code: 13 }]],
]

/** 10.0.0.0/24. */
function interval(set: NfSet, extras: NfElementExtras = {}): NfElements {
  return new NfElements(set)
    .add(address('10.0.0.0'), extras)
    .add(address('10.0.1.0'), { isIntervalEnd: true })
}

const objects: NfTransaction = [
  { op: 'add-table', table: { ...table, comment: 'rules for Services' } },
  { op: 'add-counter', counter: { ...table, counter: 'drops' } },
  ...[frontends, endpoints, affinity, ranges, counted, clients].map((set): NfOp => ({ op: 'add-set', set })),
  { op: 'add-chain', chain: cluster },
  { op: 'add-chain', chain: { ...table, chain: 'firewall' } },
  { op: 'add-chain', chain: { ...output, hook: { type: 'nat', hook: 'output', priority: -100 } } },
  { op: 'add-chain', chain: { ...post, hook: { type: 'nat', hook: 'postrouting', priority: 100 } } },
  {
    op: 'add-chain',
    chain: {
      ...filter,
      hook: { type: 'filter', hook: 'input', priority: 0, policy: 'drop' },
      comment: 'local',
    },
  },
  ...[dispatch, zoneMarks, zones, zoneDrops].map((set): NfOp => ({ op: 'add-set', set })),
  {
    op: 'insert-rule',
    rule: { ...output, expressions: [{ kind: 'counter' }], comment: 'all packets' },
  },
  {
    op: 'add-elements',
    elements: new NfElements(frontends).add(packFields(frontends.key, ['10.96.0.1', 6, 443]), {
      data: mark(2),
    }),
  },
  {
    op: 'add-elements',
    elements: new NfElements(endpoints).add(packFields(endpoints.key, ['10.96.0.1', 6, 443, 1]), {
      data: packFields(['ip daddr', 'th dport'], ['192.0.2.10', 6443]),
    }),
  },
  { op: 'add-elements', elements: interval(ranges) },
  { op: 'add-elements', elements: interval(zoneMarks, { data: mark(2) }) },
  { op: 'add-elements', elements: interval(zones, { verdict: { code: 'goto', chain: 'firewall' } }) },
  { op: 'add-elements', elements: interval(zoneDrops, { counter: 'drops' }) },
  {
    op: 'add-elements',
    elements: new NfElements(dispatch).add(packFields(['inet_service'], [80]), {
      verdict: { code: 'goto', chain: 'firewall' },
    }),
  },
]

const ruleOps: ReadonlyMap<string, NfOp> = new Map(
  rules.map(([chain, line, expressions]) => [line, { op: 'add-rule', rule: { ...chain, expressions } }]),
)

const setLines: readonly string[] = [
  'type ipv4_addr . inet_proto . inet_service : mark',
  'elements = { 10.96.0.1 . tcp . 443 : 0x00000002 }',
  'typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport',
  'elements = { 10.96.0.1 . tcp . 443 . 1 : 192.0.2.10 . 6443 }',
  'elements = { 10.0.0.0/24 }',
  'elements = { 10.0.0.0/24 : 0x00000002 }',
  'elements = { 10.0.0.0/24 : goto firewall }',
  'elements = { 10.0.0.0/24 : "drops" }',
  'elements = { 80 : goto firewall }',
  'comment "chains by frontend"',
  'counter packets 0 bytes 0 comment "all packets"',
  'type filter hook input priority filter; policy drop;',
]

function list(): Promise<string> {
  return mustRun(['nft', 'list', 'ruleset'])
}

describe('nft', () => {
  let nftables: Nftables
  let folder: string
  before(() => {
    nftables = openRealKernel().nftables
    folder = mkdtempSync(join(tmpdir(), 'viaduct-nft-'))
  })
  after(async () => {
    await nftables.close()
    rmSync(folder, { recursive: true })
  })

  it('lists our rules and sets with their meaning', async () => {
    const outcome = await nftables.apply([...objects, ...ruleOps.values()])
    assert.deepEqual(outcome.failures, [])
    const lines = (await list()).split('\n').map((line) => line.trim())
    for (const [, line] of rules) assert.ok(lines.includes(line), `${line}\n${lines.join('\n')}`)
    for (const line of setLines) assert.ok(lines.includes(line), `${line}\n${lines.join('\n')}`)
  })

  it('reads the printed form of a transaction with the same result', async () => {
    const accepted = [...ruleOps].flatMap(([line, op]) => (listedOnly.test(line) ? [] : [op]))
    const remake: NfTransaction = [{ op: 'delete-table', table }, ...objects, ...accepted]
    assert.deepEqual((await nftables.apply(remake)).failures, [])
    const ours = await list()
    const file = join(folder, 'transaction.nft')
    writeFileSync(file, printTransaction(remake))
    await mustRun(['nft', '-f', file])
    assert.equal(await list(), ours)
    const theirs = await nftables.rules(table)
    for (const op of accepted) {
      assert.ok('rule' in op && 'expressions' in op.rule)
      const { rule } = op
      const text = printTransaction([op])
      assert.ok(
        theirs.some((found) => isSameRule(rule, found)),
        `${text}${JSON.stringify(theirs)}`,
      )
    }
  })

  it('writes elements that we can read', async () => {
    const elements = await nftables.elements(endpoints)
    assert.equal(elements.length, 1)
    assert.deepEqual(
      Buffer.from(elements.data(0)).toString('hex'),
      Buffer.from(packFields(['ip daddr', 'th dport'], ['192.0.2.10', 6443])).toString('hex'),
    )
    const found = await nftables.elements(zones)
    const first = Array.from({ length: found.length }, (_, index) => index).find(
      (index) => !found.isIntervalEnd(index),
    )
    assert.ok(first !== undefined && found.length > 1)
    assert.deepEqual(found.verdict(first), { code: 'goto', chain: 'firewall' })
  })

  it('iptables-nft reads our rules with x_tables matches', async () => {
    const filterTable = { family: 'ipv4', table: 'filter' } as const
    const input = { ...filterTable, chain: 'INPUT' }
    const comment = new Uint8Array(256)
    comment.set(new TextEncoder().encode('web'))
    // struct xt_tcp: source ports, destination ports in host order, no flags and options.
    const tcp = Uint8Array.of(0, 0, 255, 255, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    const rule = {
      ...input,
      compat: { protocol: 6 },
      expressions: [
        { kind: 'meta', to: 0, key: 'l4proto' },
        { kind: 'cmp', from: 0, op: '==', value: number(6) },
        { kind: 'match', name: 'comment', revision: 0, info: comment },
        { kind: 'match', name: 'tcp', revision: 0, info: tcp },
        { kind: 'counter' },
        { kind: 'target', name: 'REJECT', revision: 0, info: number(3, 0, 0, 0, 0, 0, 0, 0) },
      ],
    } as const
    const outcome = await nftables.apply([
      { op: 'add-table', table: filterTable },
      { op: 'add-chain', chain: { ...input, hook: { type: 'filter', hook: 'input', priority: 0 } } },
      { op: 'add-rule', rule },
    ])
    assert.deepEqual(outcome.failures, [])
    const [found] = await nftables.rules(input)
    assert.ok(found !== undefined && isSameRule(rule, found), JSON.stringify(found))
    const saved = await mustRun(['iptables-nft', '-S', 'INPUT'])
    const reject = '-j REJECT --reject-with icmp-port-unreachable'
    assert.ok(saved.includes(`-A INPUT -p tcp -m comment --comment web -m tcp --dport 80 ${reject}`), saved)
  })

  it('is named as the writer of its changes', async () => {
    const watch = nftables.watch()
    await mustRun(['nft', 'flush', 'ruleset'])
    const [change] = (await watch.next()) ?? []
    assert.ok(change?.kind === 'transaction')
    assert.equal(change.program, 'nft')
    const names = change.objects.map(({ kind, table: of, name }) => `${kind} ${of} ${name}`.trim())
    assert.ok(names.includes('table kube-proxy'), names.join())
    assert.ok(names.includes('rules kube-proxy cluster-2'), names.join())
    await watch.close()
  })
})
