// Laws of Nftables about elements: anonymous sets of rules, elements by key, counts and times. Run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import {
  anonymousSet,
  isSameRule,
  type NfExpression,
  NfElements,
  type NfField,
  type NfOp,
  type NfRule,
  type NfSet,
  type NfTransaction,
  type Nftables,
  packFields,
} from '../../src/kernel/index.js'
import { isSameSet } from '../../src/kernel/testing.js'
import { rejectsWith } from './law.js'
import type { NftablesSubject } from './nftables.contract.js'

const table = { family: 'ipv4', table: 'elements' } as const
const chain = { ...table, chain: 'services' } as const
const base = { ...table, chain: 'nat-output', hook: { type: 'nat', hook: 'output', priority: -100 } } as const
const frontend: readonly NfField[] = ['ipv4_addr', 'inet_proto', 'inet_service']
const endpoint: readonly NfField[] = ['ipv4_addr', 'inet_service']
const counts: NfSet = { ...table, set: 'service-ips', key: frontend, data: ['mark'] }
const addresses: NfSet = { ...table, set: 'cluster-ips', key: ['ipv4_addr'] }
const chains: NfSet = { ...table, set: 'dispatch', key: ['ipv4_addr'], data: 'verdict' }

const setup: NfTransaction = [
  { op: 'add-table', table },
  { op: 'delete-table', table },
  { op: 'add-table', table },
  { op: 'add-chain', chain },
  { op: 'add-chain', chain: base },
  { op: 'add-set', set: counts },
  { op: 'add-set', set: addresses },
]

const numgen: NfExpression = { kind: 'numgen', to: 0, modulus: 2, type: 'random' }
const dnat: NfExpression = { kind: 'nat', type: 'dnat', family: 'ipv4', addressMin: 0, portMin: 1 }

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

function ip(text: string): Uint8Array {
  return packFields(['ipv4_addr'], [text])
}

/** The key of `numgen`. */
function choice(number: number): Uint8Array {
  return packFields(['integer'], [number])
}

function anonymous(data: NfSet['data'], fill: (map: NfElements) => NfElements): NfElements {
  return fill(
    new NfElements(anonymousSet(table, { key: ['integer'], ...(data === undefined ? {} : { data }) })),
  )
}

/** `{ 0 : goto a, 1 : goto b }` */
function vmapTo(...targets: readonly string[]): NfElements {
  return anonymous('verdict', (map) => {
    for (const [number, to] of targets.entries())
      map.add(choice(number), { verdict: { code: 'goto', chain: to } })
    return map
  })
}

function lookupIn(elements: NfElements, to: 'verdict' | number): NfExpression {
  return { kind: 'lookup', set: elements.set.set, from: 0, to, elements }
}

function rule(expressions: readonly NfExpression[], comment?: string): NfRule {
  return { ...chain, expressions, ...(comment === undefined ? {} : { comment }) }
}

/** Applies the transaction. Resolves with the handles of its rules. */
async function apply(nftables: Nftables, transaction: NfTransaction): Promise<ReadonlyMap<number, number>> {
  const { state, failures, handles } = await nftables.apply(transaction)
  assert.deepEqual([state, failures], ['applied', []])
  return handles
}

/** `operation/element code` of each failure. */
async function refusals(nftables: Nftables, ...transaction: readonly NfOp[]): Promise<readonly string[]> {
  const { state, failures } = await nftables.apply(transaction)
  assert.equal(state, 'refused')
  return failures.map(
    ({ operation, element, error }) =>
      `${operation ?? '-'}${element === undefined ? '' : `/${element}`} ${error.code}`,
  )
}

/** Runs the laws in one network namespace. */
export function nftElementsContract(subject: string, open: () => NftablesSubject): void {
  describe(`${subject}: Nftables, elements`, () => {
    let nftables: Nftables
    let other: Nftables
    before(() => {
      ;({ nftables, other } = open())
    })
    beforeEach(async () => {
      await apply(nftables, setup)
    })
    after(async () => {
      await apply(nftables, [{ op: 'delete-table', table }])
      await other.close()
      await nftables.close()
    })

    it('keeps the anonymous sets of a rule: they go with it', async () => {
      const targets = ['service-endpoint-0', 'service-endpoint-1']
      const toChains = lookupIn(vmapTo(...targets), 'verdict')
      const toEndpoints = lookupIn(
        anonymous(endpoint, (map) =>
          map
            .add(choice(0), { data: packFields(endpoint, ['10.244.1.1', 8080]) })
            .add(choice(1), { data: packFields(endpoint, ['10.244.1.2', 8080]) }),
        ),
        0,
      )
      const two: NfRule = { ...base, expressions: [numgen, toEndpoints, dnat] }
      const one = rule([numgen, toChains])
      const handles = await apply(nftables, [
        ...targets.map((name): NfOp => ({ op: 'add-chain', chain: { ...table, chain: name } })),
        { op: 'add-rule', rule: one, wantsHandle: true },
        { op: 'add-rule', rule: two },
        { op: 'insert-rule', rule: rule([numgen, toChains], 'first') },
      ])
      const [[at, handle = 0] = []] = handles
      assert.deepEqual([at, handles.size], [2, 1])
      const [first, found] = await nftables.rules(chain)
      const [read] = await nftables.rules(base)
      assert.ok(found !== undefined && first !== undefined && read !== undefined)
      assert.equal(found.handle, handle)
      assert.ok(isSameRule(one, found), JSON.stringify(found))
      assert.ok(isSameRule(two, read), JSON.stringify(read))
      const wrong = [vmapTo('service-endpoint-1', 'service-endpoint-0'), vmapTo('service-endpoint-0')]
      for (const content of wrong) assert.ok(!isSameRule(rule([numgen, lookupIn(content, 'verdict')]), found))
      assert.ok(
        !isSameRule(rule([numgen, { kind: 'lookup', set: 'dispatch', from: 0, to: 'verdict' }]), found),
      )
      // Anonymous sets are no sets of the table.
      const names = (await nftables.sets(table)).map(({ set }) => set)
      assert.deepEqual(names.toSorted(), ['cluster-ips', 'service-ips'])
      const lost = lookupIn(vmapTo('service-endpoint-0', 'absent'), 'verdict')
      assert.deepEqual(await refusals(nftables, { op: 'add-rule', rule: rule([numgen, lost]) }), [
        '0/1 ENOENT',
      ])
      const deleted = targets.map((name): NfOp => ({ op: 'delete-chain', chain: { ...table, chain: name } }))
      assert.deepEqual(await refusals(nftables, ...deleted), ['0 EBUSY', '1 EBUSY'])
      const replaced = rule([numgen, lookupIn(vmapTo('service-endpoint-0'), 'verdict')])
      await apply(nftables, [{ op: 'replace-rule', rule: replaced, handle }])
      const [, changed] = await nftables.rules(chain)
      assert.ok(changed !== undefined && isSameRule(replaced, changed), JSON.stringify(changed))
      await apply(nftables, [{ op: 'flush-chain', chain }, ...deleted])
    })

    it('finds elements by key, in the order of the keys', async () => {
      const all = new NfElements(counts)
      for (let number = 0; number < 3000; number++)
        all.add(packFields(frontend, [`10.1.${number >> 8}.${number & 255}`, 6, 80]), {
          data: packFields(['mark'], [number]),
        })
      await apply(nftables, [{ op: 'add-elements', elements: all }])
      const absent = packFields(frontend, ['10.9.0.1', 6, 80])
      // Every key, backwards, with absent ones at the start, in between and at the end.
      const keys: Uint8Array[] = [absent]
      for (let index = all.length - 1; index >= 0; index--) {
        keys.push(all.key(index))
        if (index % 700 === 0) keys.push(absent, absent)
      }
      const found = await nftables.elementsByKey(counts, Buffer.concat(keys))
      assert.deepEqual(
        Array.from({ length: found.length }, (_, index) => hex(found.key(index))),
        Array.from({ length: all.length }, (_, index) => hex(all.key(all.length - 1 - index))),
      )
      assert.equal(hex(found.data(0)), hex(packFields(['mark'], [2999])))
      assert.equal((await nftables.elementsByKey(counts, absent)).length, 0)
      assert.equal((await nftables.elementsByKey(counts, new Uint8Array(0))).length, 0)
      await rejectsWith(nftables.elementsByKey({ ...counts, set: 'absent' }, absent), 'ENOENT')
      await rejectsWith(nftables.elementsByKey({ ...counts, data: ['mark', 'mark'] }, all.key(0)), 'EPROTO')
    })

    it('finds verdicts by key', async () => {
      await apply(nftables, [
        { op: 'add-set', set: chains },
        {
          op: 'add-elements',
          elements: new NfElements(chains)
            .add(ip('10.0.0.1'), { verdict: { code: 'goto', chain: 'services' } })
            .add(ip('10.0.0.2'), { verdict: { code: 'drop' } }),
        },
      ])
      const found = await nftables.elementsByKey(chains, ip('10.0.0.2'))
      assert.deepEqual([found.length, found.verdict(0)], [1, { code: 'drop' }])
    })

    it('counts the elements of sets, where the kernel counts them', async () => {
      await apply(nftables, [
        { op: 'add-elements', elements: new NfElements(addresses).add(ip('10.0.0.1')).add(ip('10.0.0.2')) },
      ])
      const count = (await nftables.sets(table)).find(({ set }) => set === addresses.set)?.attributes.count
      assert.ok(count === undefined || count === 2, String(count))
    })

    it('keeps the remaining time of clients that are copied', async () => {
      const clients: NfSet = {
        ...table,
        set: 'clients-1',
        key: ['ipv4_addr', 'mark'],
        size: 262_144,
        flags: ['timeout', 'dynamic'],
        gcIntervalMs: 60_000,
      }
      const key = packFields(clients.key, ['192.0.2.1', 17])
      const elements = new NfElements(clients).add(key, { timeoutMs: 10_800_000, expirationMs: 3_600_000 })
      await apply(nftables, [
        { op: 'add-set', set: clients },
        { op: 'add-elements', elements },
      ])
      const read = (await nftables.sets(table)).find(({ set }) => set === clients.set)
      assert.ok(read !== undefined && isSameSet(clients, read.attributes), JSON.stringify(read))
      const found = await nftables.elements(clients)
      assert.deepEqual([found.length, hex(found.key(0)), found.timeoutMs(0)], [1, hex(key), 10_800_000])
      assert.ok(found.expirationMs(0) > 3_500_000 && found.expirationMs(0) <= 3_600_000)
    })
  })
}
