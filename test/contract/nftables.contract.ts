// Laws of Nftables, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import {
  isSameRule,
  type NfExpression,
  NfElements,
  type NfField,
  type NfOp,
  type NfOutcome,
  type NfRule,
  type NfSet,
  type NfTransaction,
  type Nftables,
  packFields,
} from '../../src/kernel/index.js'
import { isSameSet, type NfElementExtras } from '../../src/kernel/testing.js'
import { rejectsWith } from './law.js'

export interface NftablesSubject {
  readonly nftables: Nftables
  /** Another program in the same network namespace. */
  readonly other: Nftables
  /** Opens a third program. The caller closes it. */
  readonly openThird: () => Nftables
}

const table = { family: 'ipv4', table: 'contract' } as const
const chain = { ...table, chain: 'services' } as const
const base = {
  ...table,
  chain: 'nat-output',
  hook: { type: 'nat', hook: 'output', priority: -100 },
} as const
const accept: NfExpression = { kind: 'immediate', to: 'verdict', data: { verdict: { code: 'accept' } } }

const frontend: readonly NfField[] = ['ipv4_addr', 'inet_proto', 'inet_service']
const counts: NfSet = { ...table, set: 'service-ips', key: frontend, data: ['mark'] }
const addresses: NfSet = { ...table, set: 'cluster-ips', key: ['ipv4_addr'] }
const chains: NfSet = { ...table, set: 'dispatch', key: ['ipv4_addr'], data: 'verdict' }

const setup: NfTransaction = [
  { op: 'add-table', table },
  { op: 'add-chain', chain },
  { op: 'add-chain', chain: base },
  { op: 'add-set', set: counts },
  { op: 'add-set', set: addresses },
]

/** A map, the data of its interval, how to read the data back, and the expected result. */
type IntervalCase = readonly [
  set: NfSet,
  extras: NfElementExtras,
  read: (elements: NfElements, index: number) => unknown,
  expected: unknown,
]

/** Elements of a map from frontends to marks. */
function marks(...entries: readonly (readonly [string, number, number])[]): NfElements {
  const elements = new NfElements(counts)
  for (const [address, port, mark] of entries)
    elements.add(packFields(frontend, [address, 6, port]), { data: packFields(['mark'], [mark]) })
  return elements
}

function ips(...list: readonly string[]): NfElements {
  const elements = new NfElements(addresses)
  for (const address of list) elements.add(ip(address))
  return elements
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

function ip(text: string): Uint8Array {
  return packFields(['ipv4_addr'], [text])
}

const load: NfExpression = { kind: 'payload', to: 0, base: 'network', offset: 16, length: 4 }

function lookup(set: string): NfExpression {
  return { kind: 'lookup', set, from: 0 }
}

function jump(to: string): NfExpression {
  return { kind: 'immediate', to: 'verdict', data: { verdict: { code: 'jump', chain: to } } }
}

function hexOf(elements: NfElements): readonly string[] {
  return Array.from({ length: elements.length }, (_, index) =>
    `${hex(elements.key(index))} ${hex(elements.data(index))}`.trim(),
  ).toSorted()
}

/** `operation/element code`, or `- code` for the transaction as a whole. */
function failuresOf({ failures }: NfOutcome): readonly string[] {
  return failures.map(
    ({ operation, element, error }) =>
      `${operation ?? '-'}${element === undefined ? '' : `/${element}`} ${error.code}`,
  )
}

function rule(expressions: readonly NfExpression[], comment?: string): NfRule {
  return { ...chain, expressions, ...(comment === undefined ? {} : { comment }) }
}

/** Runs the laws in one network namespace without tables. */
export function nftablesContract(subject: string, open: () => NftablesSubject): void {
  describe(`${subject}: Nftables`, () => {
    let nftables: Nftables
    let other: Nftables
    let openThird: () => Nftables

    async function apply(transaction: NfTransaction): Promise<NfOutcome> {
      const outcome = await nftables.apply(transaction)
      assert.deepEqual(failuresOf(outcome), [])
      assert.equal(outcome.state, 'applied')
      return outcome
    }
    async function refusals(...transaction: readonly NfOp[]): Promise<readonly string[]> {
      const start = await nftables.generation()
      const outcome = await nftables.apply(transaction)
      assert.equal(outcome.state, 'refused')
      assert.equal(await nftables.generation(), start)
      return failuresOf(outcome)
    }
    const commentsOf = async (): Promise<readonly (string | undefined)[]> =>
      (await nftables.rules(chain)).map(({ comment }) => comment)

    before(() => {
      ;({ nftables, other, openThird } = open())
    })
    beforeEach(async () => {
      for (const { family, table: name } of await nftables.tables('ipv4'))
        await apply([{ op: 'delete-table', table: { family, table: name } }])
      await apply(setup)
    })
    after(async () => {
      await apply([{ op: 'delete-table', table }])
      await other.close()
      await nftables.close()
      await nftables.close()
      await rejectsWith(nftables.generation(), 'EBADF')
      await rejectsWith(nftables.apply([]), 'EBADF')
      assert.throws(() => nftables.watch(), { code: 'EBADF' })
    })

    it('lists the objects of a transaction, and none of the other family', async () => {
      const read = await nftables.chains(table)
      assert.deepEqual(
        read.map(({ chain: name, hook }) => [name, hook]),
        [
          [chain.chain, undefined],
          [base.chain, base.hook],
        ],
      )
      const [found] = await nftables.tables('ipv4')
      assert.deepEqual({ family: found?.family, table: found?.table }, table)
      assert.deepEqual(await nftables.tables('ipv6'), [])
      const absent = { ...table, table: 'absent' }
      assert.deepEqual(await nftables.chains(absent), [])
      await rejectsWith(nftables.sets(absent), 'ENOENT')
      assert.deepEqual(await nftables.rules(absent), [])
      const names = (await nftables.sets(table)).map(({ set }) => set)
      assert.deepEqual(names.toSorted(), ['cluster-ips', 'service-ips'])
    })

    it('counts generations: one for each transaction that changes something', async () => {
      const start = await nftables.generation()
      const outcome = await apply([{ op: 'add-elements', elements: ips('10.0.0.1') }])
      assert.equal(outcome.generation, start + 1)
      assert.equal(await nftables.generation(), start + 1)
      const more = await apply([{ op: 'delete-elements', elements: ips('10.0.0.1') }])
      assert.equal(more.generation, start + 2)
      await apply([
        { op: 'add-elements', elements: ips('10.0.0.1') },
        { op: 'add-rule', rule: rule([accept]) },
      ])
      const deletions: readonly NfOp[] = [
        { op: 'flush-set', set: addresses },
        { op: 'delete-set', set: addresses },
        { op: 'flush-chain', chain },
        { op: 'delete-chain', chain: base },
      ]
      for (const op of deletions) {
        const { generation } = await apply([op])
        assert.equal(generation, await nftables.generation(), op.op)
      }
      const last = await nftables.generation()
      assert.equal((await apply([])).generation, undefined)
      assert.equal((await apply([{ op: 'add-table', table }])).generation, undefined)
      assert.equal(await nftables.generation(), last)
      assert.equal((await apply([{ op: 'delete-table', table }])).generation, undefined)
      await apply(setup)
    })

    it('refuses a transaction for another generation', async () => {
      const generation = await nftables.generation()
      const add: NfOp = { op: 'add-elements', elements: ips('10.0.0.1') }
      await other.apply([add])
      const late = await nftables.apply([{ op: 'flush-set', set: addresses }], { generation })
      assert.deepEqual(failuresOf(late), ['- ERESTART'])
      assert.equal((await nftables.elements(addresses)).length, 1)
      const next = await nftables.apply([{ op: 'flush-set', set: addresses }], { generation: generation + 1 })
      assert.deepEqual(failuresOf(next), [])
      assert.equal((await nftables.elements(addresses)).length, 0)
    })

    it('a dry run checks operations and changes nothing', async () => {
      const generation = await nftables.generation()
      const good = await nftables.apply([{ op: 'delete-table', table }], { isDryRun: true })
      assert.deepEqual(failuresOf(good), [])
      const bad = await nftables.apply([{ op: 'delete-table', table: { ...table, table: 'absent' } }], {
        isDryRun: true,
      })
      assert.deepEqual(failuresOf(bad), ['0 ENOENT'])
      assert.equal(await nftables.generation(), generation)
    })

    it('names every refused operation, and changes nothing', async () => {
      const absent = { ...table, chain: 'absent' }
      assert.deepEqual(
        await refusals(
          { op: 'add-rule', rule: rule([accept]) },
          { op: 'flush-set', set: { ...addresses, set: 'absent' } },
          { op: 'delete-chain', chain: absent },
          { op: 'add-rule', rule: { ...absent, expressions: [accept] } },
          { op: 'create-table', table },
        ),
        ['1 ENOENT', '2 ENOENT', '3 ENOENT', '4 EEXIST'],
      )
      assert.deepEqual(await nftables.rules(chain), [])
    })

    it('names the object of a refused operation', async () => {
      const outcome = await nftables.apply([{ op: 'delete-set', set: { ...addresses, set: 'absent' } }])
      const [failure] = outcome.failures
      assert.equal(failure?.error.operation, 'delete set')
      assert.equal(failure?.error.object, 'ip contract absent')
    })

    it('names the element that is refused', async () => {
      await apply([{ op: 'add-elements', elements: ips('10.0.0.3') }])
      const three = ips('10.0.0.1', '10.0.0.2', '10.0.0.3')
      assert.deepEqual(await refusals({ op: 'create-elements', elements: three }), ['0/2 EEXIST'])
      const absent = ips('10.0.0.3', '10.0.0.4')
      assert.deepEqual(await refusals({ op: 'delete-elements', elements: absent }), ['0/1 ENOENT'])
    })

    it('names an element of a later message of a large operation', async () => {
      const many = new NfElements(addresses)
      for (let index = 0; index < 20_000; index++) many.add(ip(`10.1.${index >> 8}.${index & 255}`))
      await apply([{ op: 'add-elements', elements: ips('10.1.70.0') }])
      const refused = await refusals({ op: 'create-elements', elements: many })
      assert.deepEqual(refused, ['0/17920 EEXIST'])
      await apply([{ op: 'add-elements', elements: many }])
      assert.equal((await nftables.elements(addresses)).length, many.length)
    })

    it('maps keys to data, and refuses an existing key with other data', async () => {
      const two = marks(['10.96.0.1', 443, 3], ['10.96.0.10', 53, 2])
      await apply([{ op: 'add-elements', elements: two }])
      await apply([{ op: 'add-elements', elements: marks(['10.96.0.1', 443, 3]) }])
      const found = hexOf(await nftables.elements(counts))
      assert.deepEqual(
        found,
        ['0a60000106000000 01bb0000 03000000', '0a60000a06000000 00350000 02000000'].map((text) =>
          text.replace(' ', ''),
        ),
      )
      const changed = marks(['10.96.0.1', 443, 4])
      assert.deepEqual(await refusals({ op: 'add-elements', elements: changed }), ['0/0 EEXIST'])
      await apply([
        { op: 'delete-elements', elements: marks(['10.96.0.1', 443, 3]) },
        { op: 'add-elements', elements: changed },
      ])
      const read = await nftables.elements(counts)
      assert.ok(hexOf(read).some((element) => element.endsWith(' 04000000')))
    })

    it('refuses elements beyond the size of a set', async () => {
      const small: NfSet = { ...addresses, set: 'small', size: 2 }
      const elements = new NfElements(small)
      for (const address of ['10.0.0.1', '10.0.0.2', '10.0.0.3']) elements.add(ip(address))
      await apply([{ op: 'add-set', set: small }])
      assert.deepEqual(await refusals({ op: 'add-elements', elements }), ['0/2 ENFILE'])
    })

    it('keeps verdicts and counters as data', async () => {
      const counter = { ...table, counter: 'drops' }
      const counted: NfSet = { ...table, set: 'counted', key: ['ipv4_addr'], data: 'counter' }
      const key = ip('10.0.0.1')
      await apply([
        { op: 'add-counter', counter },
        { op: 'add-set', set: chains },
        { op: 'add-set', set: counted },
        {
          op: 'add-elements',
          elements: new NfElements(chains)
            .add(key, { verdict: { code: 'goto', chain: 'services' } })
            .add(ip('10.0.0.2'), { verdict: { code: 'drop' } }),
        },
        { op: 'add-elements', elements: new NfElements(counted).add(key, { counter: 'drops' }) },
      ])
      const verdicts = await nftables.elements(chains)
      const read = Array.from({ length: verdicts.length }, (_, index) => verdicts.verdict(index))
      assert.deepEqual(
        read.toSorted((a, b) => String(a.code).localeCompare(String(b.code))),
        [{ code: 'drop' }, { code: 'goto', chain: 'services' }],
      )
      assert.equal((await nftables.elements(counted)).counter(0), 'drops')
      assert.deepEqual(await nftables.counters(table), [{ ...counter, packets: 0, bytes: 0 }])
      assert.deepEqual(await refusals({ op: 'delete-chain', chain }, { op: 'delete-counter', counter }), [
        '0 EBUSY',
        '1 EBUSY',
      ])
      const lost = new NfElements(chains).add(ip('10.0.0.9'), {
        verdict: { code: 'jump', chain: 'absent' },
      })
      assert.deepEqual(await refusals({ op: 'add-elements', elements: lost }), ['0/0 ENOENT'])
    })

    it('keeps intervals and time-outs', async () => {
      const ranges: NfSet = { ...table, set: 'ranges', key: ['ipv4_addr'], flags: ['interval'] }
      const areas: NfSet = { ...table, set: 'areas', key: ['ipv4_addr', 'inet_service'], flags: ['interval'] }
      const timed: NfSet = {
        ...table,
        set: 'timed',
        key: ['ipv4_addr'],
        flags: ['timeout'],
        timeoutMs: 60_000,
      }
      await apply([
        ...[ranges, areas, timed].map((set): NfOp => ({ op: 'add-set', set })),
        {
          op: 'add-elements',
          elements: new NfElements(ranges).add(ip('10.0.0.0')).add(ip('10.0.1.0'), { isIntervalEnd: true }),
        },
        {
          op: 'add-elements',
          elements: new NfElements(areas).add(packFields(areas.key, ['10.0.0.0', 80]), {
            keyEnd: packFields(areas.key, ['10.0.0.255', 90]),
          }),
        },
        { op: 'add-elements', elements: new NfElements(timed).add(ip('10.0.0.1'), { timeoutMs: 3_600_000 }) },
      ])
      const found = await nftables.elements(ranges)
      const ends = Array.from({ length: found.length }, (_, index) =>
        [hex(found.key(index)), found.isIntervalEnd(index)].join(' '),
      )
      assert.ok(ends.includes('0a000000 false') && ends.includes('0a000100 true'), ends.join())
      const area = await nftables.elements(areas)
      assert.equal(hex(area.keyEnd(0)), '0a0000ff005a0000')
      const time = await nftables.elements(timed)
      assert.equal(time.timeoutMs(0), 3_600_000)
      assert.ok(time.expirationMs(0) > 3_500_000 && time.expirationMs(0) <= 3_600_000)
    })

    it('keeps intervals in maps: the end of an interval has no data', async () => {
      const ranges: NfSet = { ...table, set: 'ranges', key: ['ipv4_addr'], flags: ['interval'] }
      const mark = packFields(['mark'], [2])
      const data = (elements: NfElements, index: number): unknown => hex(elements.data(index))
      const cases: readonly IntervalCase[] = [
        [{ ...ranges, data: ['mark'] }, { data: mark }, data, hex(mark)],
        [
          { ...ranges, data: ['mark'], flags: ['interval', 'timeout'] },
          { data: mark, timeoutMs: 3_600_000 },
          (elements, index) => [data(elements, index), elements.timeoutMs(index)],
          [hex(mark), 3_600_000],
        ],
        [
          { ...ranges, data: 'verdict' },
          { verdict: { code: 'goto', chain: 'services' } },
          (elements, index) => elements.verdict(index),
          { code: 'goto', chain: 'services' },
        ],
        [
          { ...ranges, data: 'counter' },
          { counter: 'drops' },
          (elements, index) => elements.counter(index),
          'drops',
        ],
      ]
      await apply([{ op: 'add-counter', counter: { ...table, counter: 'drops' } }])
      for (const [set, extras, read, expected] of cases) {
        // Like nft, which begins with the end of an interval before the first key.
        const first = new NfElements(set).add(ip('0.0.0.0'), { isIntervalEnd: true })
        const interval = new NfElements(set)
          .add(ip('10.0.0.0'), extras)
          .add(ip('10.0.1.0'), { isIntervalEnd: true })
        await apply([
          { op: 'add-set', set },
          { op: 'add-elements', elements: first },
          { op: 'add-elements', elements: interval },
        ])
        const found = await nftables.elements(set)
        const shown = Array.from({ length: found.length }, (_, index) => [
          hex(found.key(index)),
          found.isIntervalEnd(index) ? 'end' : read(found, index),
        ])
        assert.deepEqual(
          shown.toSorted(([a], [b]) => String(a).localeCompare(String(b))),
          [
            ['00000000', 'end'],
            ['0a000000', expected],
            ['0a000100', 'end'],
          ],
        )
        await apply([{ op: 'delete-elements', elements: found }])
        assert.equal((await nftables.elements(set)).length, 0)
        await apply([{ op: 'delete-set', set }])
      }
    })

    it('lists sets as they were created', async () => {
      const made: readonly NfSet[] = [
        { ...table, set: 'plain', key: ['inet_service'], comment: 'ports' },
        { ...table, set: 'sized', key: frontend, size: 100, flags: ['timeout', 'dynamic'], timeoutMs: 5000 },
        { ...table, set: 'areas', key: ['ipv4_addr', 'inet_service'], flags: ['interval'] },
        { ...table, set: 'counting', key: ['ipv4_addr'], isCounting: true },
        { ...table, set: 'counted', key: ['ipv4_addr'], data: 'counter' },
        chains,
        {
          ...table,
          set: 'endpoints',
          key: ['ip daddr', 'meta l4proto', 'th dport', 'numgen random mod 2'],
          data: ['ip daddr', 'th dport'],
        },
      ]
      await apply(made.map((set) => ({ op: 'add-set', set })))
      const found = new Map((await nftables.sets(table)).map(({ set, attributes }) => [set, attributes]))
      for (const set of made) {
        const attributes = found.get(set.set)
        assert.ok(attributes !== undefined && isSameSet(set, attributes), JSON.stringify(attributes))
        assert.ok(!isSameSet({ ...set, key: ['mark'] }, attributes))
      }
    })

    it('adds rules at their positions', async () => {
      const { handles } = await apply([
        { op: 'add-rule', rule: rule([accept], 'b'), wantsHandle: true },
        { op: 'add-rule', rule: rule([accept], 'd') },
        { op: 'insert-rule', rule: rule([accept], 'a') },
      ])
      const [[index, handle = 0] = []] = handles
      assert.deepEqual([index, handles.size], [0, 1])
      await apply([
        { op: 'add-rule', rule: rule([accept], 'c'), after: handle },
        { op: 'insert-rule', rule: rule([accept], 'a2'), before: handle },
      ])
      assert.deepEqual(await commentsOf(), ['a', 'a2', 'b', 'c', 'd'])
      await apply([{ op: 'replace-rule', rule: rule([accept], 'B'), handle }])
      assert.deepEqual(await commentsOf(), ['a', 'a2', 'B', 'c', 'd'])
      assert.equal((await nftables.rules(chain))[2]?.handle, handle)
      await apply([{ op: 'delete-rule', rule: chain, handle }])
      assert.deepEqual(await commentsOf(), ['a', 'a2', 'c', 'd'])
      assert.deepEqual(await refusals({ op: 'delete-rule', rule: chain, handle }), ['0 ENOENT'])
      await apply([{ op: 'flush-chain', chain }])
      assert.deepEqual(await commentsOf(), [])
    })

    it('refuses a rule that uses an absent object, and the deletion of an object in use', async () => {
      assert.deepEqual(
        await refusals(
          { op: 'add-rule', rule: rule([load, lookup('absent')]) },
          { op: 'add-rule', rule: rule([jump('absent')]) },
          { op: 'add-rule', rule: rule([jump(base.chain)]) },
        ),
        ['0 ENOENT', '1 ENOENT', '2 EOPNOTSUPP'],
      )
      await apply([
        { op: 'add-rule', rule: { ...base, expressions: [load, lookup('cluster-ips'), jump('services')] } },
      ])
      assert.deepEqual(await refusals({ op: 'delete-set', set: addresses }, { op: 'delete-chain', chain }), [
        '0 EBUSY',
        '1 EBUSY',
      ])
      await apply([
        { op: 'flush-table', table },
        { op: 'delete-set', set: addresses },
        { op: 'delete-chain', chain },
      ])
    })

    it('a listed rule is the same as the written rule, and different rules differ', async () => {
      const written: NfRule = rule(
        [
          { kind: 'payload', to: 0, base: 'network', offset: 16, length: 4 },
          { kind: 'cmp', from: 0, op: '!=', value: ip('10.0.0.1') },
          { kind: 'counter' },
          { kind: 'immediate', to: 'verdict', data: { verdict: { code: 'goto', chain: 'services-2' } } },
        ],
        'a comment',
      )
      await apply([
        { op: 'add-chain', chain: { ...chain, chain: 'services-2' } },
        { op: 'add-rule', rule: written },
      ])
      const [found] = await nftables.rules(chain)
      assert.ok(found !== undefined)
      assert.ok(isSameRule(written, found), JSON.stringify(found))
      assert.ok(!isSameRule({ ...written, comment: 'another' }, found))
      assert.ok(!isSameRule({ ...written, expressions: written.expressions.slice(1) }, found))
    })

    it('keeps a persistent table after its owner closed', async () => {
      const kept: NfOp = { op: 'add-table', table: { ...table, table: 'kept', flags: ['owner', 'persist'] } }
      // A mode probes for the flag with a dry run. Kernels before 6.9 answer EOPNOTSUPP.
      assert.deepEqual(failuresOf(await nftables.apply([kept], { isDryRun: true })), [])
      const owner = openThird()
      assert.deepEqual(failuresOf(await owner.apply([kept])), [])
      await owner.close()
      const [, found] = await nftables.tables('ipv4')
      assert.deepEqual([found?.table, found?.owner], ['kept', undefined])
      await apply([{ op: 'delete-table', table: { ...table, table: 'kept' } }])
    })

    it('refuses to change the table of another owner', async () => {
      const owned = { ...table, table: 'owned', flags: ['owner'] } as const
      assert.deepEqual(failuresOf(await other.apply([{ op: 'add-table', table: owned }])), [])
      const [, found] = await nftables.tables('ipv4')
      assert.deepEqual(found?.flags, ['owner'])
      assert.notEqual(found?.owner, undefined)
      assert.deepEqual(await refusals({ op: 'delete-table', table: owned }), ['0 EPERM'])
      assert.deepEqual(failuresOf(await other.apply([{ op: 'delete-table', table: owned }])), [])
    })

    it('a watch reports changes of others, and not its own', async () => {
      const watch = nftables.watch()
      await apply([{ op: 'add-elements', elements: ips('10.0.0.1') }])
      await other.apply([
        { op: 'add-rule', rule: rule([accept]) },
        { op: 'add-elements', elements: ips('10.0.0.2', '10.0.0.3') },
      ])
      const changes = await watch.next()
      assert.deepEqual(
        changes?.map((change) =>
          change.kind === 'overrun'
            ? 'overrun'
            : change.objects.map(({ kind, table: of, name }) => `${kind} ${of} ${name}`).toSorted(),
        ),
        [['elements contract cluster-ips', 'rules contract services']],
      )
      const [change] = changes ?? []
      assert.ok(change?.kind === 'transaction')
      assert.equal(change.generation, await nftables.generation())
      assert.ok(change.pid > 0 && change.program !== '')
      const pending = watch.next()
      await watch.close()
      assert.equal(await pending, undefined)
    })
  })
}
