// nftables mode from events to tables: histories with faults, restarts and edits of other programs.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { NfElements, type NfOp } from '../../src/kernel/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import type { ModelNftNamespace } from '../model/index.js'
import type { ModelRefusal } from '../model/nft-transaction.js'
import { NftModeLab, nftLines } from '../support/nft-mode-lab.js'
import { endpoint, remove, set, slice, synced } from '../support/objects.js'
import { anyBusyService, anyEvent, finalObjects } from '../support/worlds.js'

const { ENOMEM, EINVAL, ENOENT, EEXIST, ENOBUFS } = constants.errno

const anyBusySlice = fc
  .record({
    name: fc.constantFrom('s1', 's2', 's3', 's4'),
    serviceName: fc.constantFrom('a', 'b', 'c', 'd'),
    lasts: fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 24 }),
  })
  .map(({ name, serviceName, lasts }) =>
    slice(
      name,
      serviceName,
      lasts.map((last) => endpoint(`10.1.0.${last}`, { nodeName: last % 3 === 0 ? 'here' : 'there' })),
    ),
  )
const anyChange: fc.Arbitrary<ObjectEvent> = fc.oneof(
  { weight: 4, arbitrary: anyEvent },
  { weight: 4, arbitrary: anyBusyService.map(set) },
  { weight: 4, arbitrary: anyBusySlice.map(set) },
  { weight: 2, arbitrary: fc.constantFrom('a', 'b', 'c', 'd').map((name) => remove('Service', name)) },
)

type Edit = (namespace: ModelNftNamespace) => readonly NfOp[]
const ours = { family: 'ipv4', table: 'kube-proxy' } as const

function pick<T>(list: readonly T[], choice: number): T | undefined {
  return list[choice % Math.max(1, list.length)]
}

/** Elements like those that are there, with another byte in key or data. */
const anyForeignElement = fc
  .record({ choice: fc.nat(), at: fc.nat(), byte: fc.constantFrom(0, 0, 1, 2, 255), also: fc.boolean() })
  .map(({ choice, at, byte, also }): Edit => (namespace) => {
    const sets = [...(namespace.tables.ipv4.get('kube-proxy')?.sets.values() ?? [])].filter(
      ({ elements, set: of }) => elements.size > 0 && !(of.flags ?? []).includes('interval'),
    )
    const kept = pick(sets, choice)
    const element = kept && pick([...kept.elements.values()], at)
    if (kept === undefined || element === undefined) return []
    const original = new NfElements(kept.set)
    element.addTo(original)
    const { keyBytes, dataBytes } = original.layout
    const key = Uint8Array.from(original.key(0))
    const data = Uint8Array.from(original.data(0))
    const isVerdict = kept.set.data === 'verdict'
    const isData = dataBytes > 0 && also && !isVerdict
    if (isData) data.fill(byte)
    else key[(at >> 4) % keyBytes] = byte
    if (also && !isData) data.fill(0)
    const extras = isVerdict ? { verdict: original.verdict(0) } : dataBytes > 0 ? { data } : {}
    const made = new NfElements(kept.set).add(key, extras)
    const isThere = [...kept.elements.values()].some((one) => {
      const other = new NfElements(kept.set)
      one.addTo(other)
      return Buffer.compare(other.key(0), key) === 0
    })
    return [
      ...(isThere ? [{ op: 'delete-elements', elements: made } as const] : []),
      { op: 'add-elements', elements: made },
    ]
  })

const anyEdit: fc.Arbitrary<Edit> = fc.oneof(
  fc.constant<Edit>((namespace) =>
    namespace.tables.ipv4.has('kube-proxy') ? [{ op: 'delete-table', table: ours }] : [],
  ),
  fc.constant<Edit>((namespace) =>
    namespace.tables.ipv4.has('kube-proxy') ? [{ op: 'flush-table', table: ours }] : [],
  ),
  fc.nat().map((choice): Edit => (namespace) => {
    const kept = pick([...(namespace.tables.ipv4.get('kube-proxy')?.sets.values() ?? [])], choice)
    return kept === undefined ? [] : [{ op: 'flush-set', set: kept.set }]
  }),
  fc.nat().map((choice): Edit => (namespace) => {
    const kept = pick([...(namespace.tables.ipv4.get('kube-proxy')?.chains.values() ?? [])], choice)
    return kept === undefined ? [] : [{ op: 'flush-chain', chain: kept.chain }]
  }),
  { weight: 4, arbitrary: anyForeignElement },
)

type Fault = number | 'lost' | ModelRefusal
type Step =
  | { readonly kind: 'events'; readonly events: readonly ObjectEvent[] }
  | { readonly kind: 'edit'; readonly edit: Edit; readonly waits: boolean }
  | { readonly kind: 'faults'; readonly faults: readonly (Fault | undefined)[] }
  | { readonly kind: 'restart'; readonly isHalf: boolean }
  | { readonly kind: 'time'; readonly ms: number }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('events' as const),
      events: fc.array(anyChange, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('edit' as const), edit: anyEdit, waits: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('faults' as const),
      faults: fc.array(
        fc.constantFrom<Fault | undefined>(
          undefined,
          ENOMEM,
          ENOBUFS,
          'lost',
          EINVAL,
          { errno: EINVAL, element: 0 },
          { errno: EEXIST, element: 0 },
          { errno: ENOENT, element: 0 },
        ),
        { maxLength: 6 },
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('restart' as const), isHalf: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('time' as const), ms: fc.constantFrom(0, 500, 3000, 35_000) }),
  },
)

class History {
  lab = new NftModeLab()
  #events: ObjectEvent[][] = []

  async begin(): Promise<void> {
    await this.lab.deliver(synced)
  }

  get objects(): readonly ObjectEvent[] {
    return finalObjects(this.#events)
  }

  async run(step: Step): Promise<void> {
    const { lab } = this
    switch (step.kind) {
      case 'events':
        this.#events.push([...step.events])
        await lab.deliver(...step.events)
        break
      case 'edit': {
        const ops = step.edit(lab.namespace)
        if (ops.length > 0) await lab.asOther(...ops)
        await lab.clock.advance(step.waits ? 600 : 0)
        break
      }
      case 'faults':
        this.#fail(step.faults)
        break
      case 'restart': {
        await lab.stop()
        this.lab = new NftModeLab({ nftNamespace: lab.namespace })
        if (step.isHalf) {
          await this.lab.deliver(...this.objects.slice(0, this.objects.length >> 1), { type: 'listed' })
          await this.lab.clock.advance(2000)
        }
        await this.lab.deliver(...this.objects, synced)
        break
      }
      case 'time':
        await lab.clock.advance(step.ms)
    }
    assert.deepEqual(this.lab.crashes, [])
  }

  #fail(faults: readonly (Fault | undefined)[]): void {
    const left = [...faults]
    this.lab.kernel.nftables.plan = {
      transactionFault: () => {
        const [next] = left
        if (typeof next === 'object') return undefined
        left.shift()
        return next
      },
      fault: (op) => {
        const [next] = left
        if (typeof next !== 'object' || !('elements' in op)) return undefined
        left.shift()
        return next
      },
    }
  }
}

/** The tables without what depends on the past: the places of endpoints in their lists, and the clients that rules recorded. */
function content(lab: NftModeLab): readonly string[] {
  return nftLines(lab.namespace)
    .filter((line) => !/^add element \S+ kube-proxy clients-/u.test(line))
    .map((line) =>
      line
        .replace(/^(add element \S+ kube-proxy \S+-endpoint)-\d+ /u, '$1-any ')
        .replaceAll(/meta mark & (0x[0-9a-f]+) \| \1/gu, 'slot'),
    )
    .flatMap(withoutPlaces)
    .toSorted()
}

/** A rule of an own chain: its share of the choices apart, and then the rest, with the endpoints of a map in order. */
function withoutPlaces(line: string): readonly string[] {
  const chain = /^add rule \S+ kube-proxy own-[A-Z2-7]{26}(?:-local)? /u.exec(line)?.[0]
  if (chain === undefined) return [line]
  const share = /numgen random mod \d+ 0 /u.exec(line)?.[0] ?? ''
  const rest = line
    .replace(share, '')
    .replace(/ # \d+$/u, '')
    .replace(/map \{ (.*?) \}/u, (_, endpoints: string) => {
      const each = endpoints.split(', ').map((text) => text.replace(/^\S+ : /u, ''))
      return `map { ${each.toSorted().join(', ')} }`
    })
  return [`${chain}share ${share}`, rest]
}

describe('properties of the pipeline of nftables mode', () => {
  it('ends with the table of a fresh start after any history', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 14 }), async (steps) => {
        const history = new History()
        await history.begin()
        for (const step of steps) await history.run(step)
        history.lab.kernel.nftables.plan = {}
        await history.lab.clock.advance(150_000)
        assert.deepEqual(history.lab.crashes, [])
        const fresh = new NftModeLab()
        await fresh.deliver(...history.objects, synced)
        await fresh.clock.advance(100)
        assert.deepEqual(content(history.lab), content(fresh))
        await Promise.all([history.lab.stop(), fresh.stop()])
      }),
      { numRuns: 60 },
    )
  })
})
