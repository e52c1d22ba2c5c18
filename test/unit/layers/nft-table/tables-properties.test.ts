import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { NfElements, type NfOp, type NftWatch } from '../../../../src/kernel/index.js'
import { compileRoute, compileStructure } from '../../../../src/layers/nft-table/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import {
  inByteOrder,
  modelContent,
  type NftLab,
  openNftLab,
  wantedContent,
} from '../../../support/nft-lab.js'
import { makeNftSettings, useOf } from '../../../support/nft-table.js'
import { cidr, ip, plainRoute } from '../../../support/routes.js'

const settings = makeNftSettings()
const table = { family: 'ipv4', table: 'kube-proxy' } as const

const anyBackends = fc.uniqueArray(fc.integer({ min: 1, max: 24 }), { maxLength: 20 }).map((numbers) =>
  numbers.map((number) => ({
    address: ip(`10.244.0.${number}`),
    port: 8000 + (number % 2),
    ...(number % 3 === 0 ? { nodeName: settings.nodeName } : {}),
  })),
)

/** Five service ports on four addresses: some share a frontend. */
const anyRoute: fc.Arbitrary<Route> = fc
  .record({
    number: fc.integer({ min: 0, max: 4 }),
    clusterBackends: anyBackends,
    localBackends: anyBackends,
    affinitySeconds: fc.constantFrom(0, 0, 60, 600),
    isExternalLocal: fc.boolean(),
    isExternallyAccessible: fc.boolean(),
    sourceRanges: fc.subarray(['0.0.0.0/0', '192.0.2.0/24', '198.51.100.0/24', '198.51.100.7/32'].map(cidr)),
    nodePort: fc.constantFrom(0, 30_000, 30_001),
  })
  .map(({ number, isExternallyAccessible, nodePort, ...rest }) =>
    plainRoute({
      ...rest,
      service: `default/s${number}`,
      clusterIP: ip(`10.96.0.${number % 4}`),
      isExternallyAccessible,
      nodePort: isExternallyAccessible ? nodePort : 0,
      loadBalancerIPs: isExternallyAccessible ? [ip(`203.0.113.${number % 2}`)] : [],
      hasEndpoints: rest.clusterBackends.length > 0,
    }),
  )

/** A change of the table by another program. */
const anyEdit: fc.Arbitrary<(lab: NftLab) => readonly NfOp[]> = fc.oneof(
  fc.constant(() => [{ op: 'delete-table', table } as const]),
  fc.constant(() => [{ op: 'flush-table', table } as const]),
  fc.nat().map((choice) => (lab: NftLab) => {
    const sets = [...(lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.values() ?? [])]
    const set = sets[choice % Math.max(1, sets.length)]?.set
    return set === undefined ? [] : [{ op: 'flush-set', set } as const]
  }),
  fc.nat().map((choice) => (lab: NftLab) => {
    const sets = [...(lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.values() ?? [])].filter(
      ({ elements }) => elements.size > 0,
    )
    const kept = sets[choice % Math.max(1, sets.length)]
    if (kept === undefined) return []
    const elements = new NfElements(kept.set)
    for (const element of [...kept.elements.values()].slice(0, 1 + (choice % 3))) element.addTo(elements)
    return [{ op: 'delete-elements', elements } as const]
  }),
)

type Step =
  | { readonly kind: 'claim'; readonly routes: readonly Route[] }
  | { readonly kind: 'release'; readonly number: number }
  | { readonly kind: 'edit'; readonly edit: (lab: NftLab) => readonly NfOp[] }
  | { readonly kind: 'fault'; readonly fault: number | 'lost' }
  | { readonly kind: 'restart' }
  | { readonly kind: 'compare' }
  /** So many slices of a comparison of everything. */
  | { readonly kind: 'slices'; readonly count: number }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('claim'),
      routes: fc.array(anyRoute, { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('release'), number: fc.integer({ min: 0, max: 4 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('edit'), edit: anyEdit }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('fault'),
      fault: fc.constantFrom(constants.errno.ENOMEM, constants.errno.EAGAIN, 'lost' as const),
    }),
  },
  fc.constant({ kind: 'restart' } as const),
  fc.constant({ kind: 'compare' } as const),
)

/** The frontends of the routes that own them, and the shared elements of those routes. */
function winning(routes: readonly Route[]): ReturnType<typeof compileRoute>[] {
  const taken = new Set<string>()
  return routes
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map((route) => {
      const { frontends, hairpins, own } = compileRoute(route, settings)
      const won = frontends.filter(({ frontend }) => {
        const name = JSON.stringify(frontend)
        const isFree = !taken.has(name)
        taken.add(name)
        return isFree
      })
      return { frontends: won, own, hairpins: won.length > 0 ? hairpins : [] }
    })
}

/** Steps between slices: the changes of others are compared slice by slice as well. */
const anySlicedStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: anyStep },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('slices'), count: fc.integer({ min: 1, max: 60 }) }),
  },
)

/** Each slice asks one question. */
const sliced = { sliceCost: 1 }

class History {
  readonly #options: { readonly sliceCost?: number }
  lab: NftLab
  readonly routes = new Map<string, Route>()
  #watch: NftWatch

  constructor(options: { readonly sliceCost?: number } = {}) {
    this.#options = options
    this.lab = openNftLab({ settings, ...options })
    this.#watch = this.lab.nftables.watch()
  }

  async run(step: Step): Promise<void> {
    switch (step.kind) {
      case 'claim':
        for (const route of step.routes) this.routes.set(route.key, route)
        this.lab.claim(...step.routes)
        break
      case 'release': {
        const { key } = plainRoute({ service: `default/s${step.number}` })
        this.routes.delete(key)
        this.lab.release(key)
        break
      }
      case 'edit':
        await this.#edit(step.edit)
        break
      case 'fault':
        await this.#fail(step.fault)
        break
      case 'restart':
        await this.#watch.close()
        this.lab = openNftLab({ settings, namespace: this.lab.nftables.namespace, ...this.#options })
        this.#watch = this.lab.nftables.watch()
        this.lab.claim(...this.routes.values())
        break
      case 'compare':
        await this.lab.compare()
        break
      case 'slices': {
        const { tables } = this.lab
        if (!tables.isComparing) tables.noteChanges([{ kind: 'overrun' }])
        for (let left = step.count; left > 0; left--)
          if (await tables.look(tables.isComparing ? 'next' : 'full')) break
      }
    }
    assert.equal(await this.lab.write(), true, JSON.stringify(this.lab.log.lines))
    await this.#settle()
    if (this.#options.sliceCost === undefined) this.assertContent()
  }

  /** The former forms of frontends that moved, and unneeded own chains, go. */
  async #settle(): Promise<void> {
    await this.lab.clock.advance(1000)
    for (let writes = 0; this.lab.tables.isWriteDue && writes < 3; writes++) await this.lab.write()
  }

  /** Compares what is left, and repairs it. */
  async finish(): Promise<void> {
    for (let round = 0; round < 2; round++) {
      await this.lab.compare('partial')
      assert.equal(await this.lab.write(), true)
      await this.#settle()
    }
    this.assertContent()
  }

  assertContent(): void {
    const wanted = wantedContent(winning([...this.routes.values()]), 'ipv4')
    assert.deepEqual(inByteOrder(modelContent(this.lab)), inByteOrder(wanted))
  }

  async #edit(edit: (lab: NftLab) => readonly NfOp[]): Promise<void> {
    const { nftables, tables } = this.lab
    const { generation } = nftables.namespace
    await new ModelNftables(nftables.namespace).apply(edit(this.lab))
    if (nftables.namespace.generation === generation) return
    tables.noteChanges((await this.#watch.next()) ?? [])
    if (this.#options.sliceCost === undefined) await this.lab.compare('partial')
    else await tables.look('partial')
  }

  /** One write fails as a whole. */
  async #fail(fault: number | 'lost'): Promise<void> {
    const { nftables, clock } = this.lab
    nftables.plan = { transactionFault: () => fault }
    await this.lab.write()
    nftables.plan = {}
    await clock.advance(1000)
  }

  async close(): Promise<void> {
    await this.#watch.close()
  }
}

describe('properties of the table of nftables mode', () => {
  it('has the elements that the routes want after each write', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 12 }), async (steps) => {
        const history = new History()
        for (const step of steps) await history.run(step)
        await history.close()
      }),
      { numRuns: 120 },
    )
  })

  it('has the elements that the routes want when slices of comparisons and changes take turns', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anySlicedStep, { minLength: 1, maxLength: 25 }), async (steps) => {
        const history = new History(sliced)
        for (const step of steps) await history.run(step)
        await history.finish()
        await history.close()
      }),
      { numRuns: 120 },
    )
  })

  it('has the structure of a fresh start after a full comparison, and is adopted without an operation', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 1, maxLength: 8 }), async (steps) => {
        const history = new History()
        for (const step of steps) await history.run(step)
        await history.run({ kind: 'compare' })
        await history.lab.cleanUp()
        const { namespace } = history.lab.nftables
        const routes = winning([...history.routes.values()])
        const { sets, chains } = compileStructure(settings, useOf(routes))
        const own = new Set(
          routes.flatMap(({ frontends }) =>
            frontends.flatMap(({ chain, shortCircuitChain }) => [chain, shortCircuitChain]),
          ),
        )
        own.delete('')
        const clients = new Set([...own].map((chain) => `clients-${chain.slice(4, 30)}`))
        const model = namespace.tables.ipv4.get('kube-proxy')
        assert.deepEqual(
          [...(model?.sets.keys() ?? [])].toSorted(),
          [...sets.map(({ set }) => set), ...clients].toSorted(),
        )
        assert.deepEqual(
          [...(model?.chains.keys() ?? [])].toSorted(),
          [...chains.map(({ chain }) => chain.chain), ...own].toSorted(),
        )
        await history.run({ kind: 'restart' })
        assert.deepEqual(history.lab.nftables.transactions, [])
        await history.close()
      }),
      { numRuns: 60 },
    )
  })
})
