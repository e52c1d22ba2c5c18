// Another program changes our rules at a moment when no look sees the change: it is repaired, and reported once.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Xtables, XtFlavour } from '../../src/kernel/index.js'
import { ModelNftables, openModelKernel, type ModelKernel } from '../model/index.js'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]
const place = { family: 'ipv4', table: 'nat', chain: 'KUBE-POSTROUTING' } as const

/** Another program flushes the chain. */
const flushes: Readonly<Record<XtFlavour, (kernel: ModelKernel) => Promise<void>>> = {
  legacy: async ({ xtNamespace }) => xtNamespace.table(place.family, place.table).flush(place.chain),
  nft: async ({ nftables }) => {
    await new ModelNftables(nftables.namespace).apply([{ op: 'flush-chain', chain: place }])
  },
}

const rulesIn: Readonly<Record<XtFlavour, (kernel: ModelKernel) => Promise<number>>> = {
  legacy: async ({ xtNamespace }) =>
    xtNamespace.table(place.family, place.table).chains.get(place.chain)?.length ?? 0,
  nft: async ({ nftables }) => (await nftables.rules(place)).length,
}

interface Moment {
  readonly when: string
  /** Calls `change` at that moment, once. */
  readonly meet: (nat: Xtables, change: () => Promise<void>) => void
}

const afterComparison: Moment = {
  when: 'between a comparison and the check that follows it',
  meet: (nat, change) => {
    const compare = nat.compare.bind(nat)
    nat.compare = async () => {
      const drift = await compare()
      nat.compare = compare
      await change()
      return drift
    }
  },
}

const duringCleanUp: Moment = {
  when: 'while the leftovers of other modes are removed',
  meet: (nat, change) => {
    const apply = nat.apply.bind(nat)
    nat.apply = async (ops, options) => {
      if (ops.length === 0 && options?.prune !== undefined) {
        nat.apply = apply
        await change()
      }
      return await apply(ops, options)
    }
  },
}

const cases: readonly {
  readonly mode: 'ipvs' | 'iptables'
  readonly flavour: XtFlavour
  readonly moments: readonly Moment[]
}[] = [
  { mode: 'ipvs', flavour: 'nft', moments: [afterComparison, duringCleanUp] },
  { mode: 'ipvs', flavour: 'legacy', moments: [afterComparison, duringCleanUp] },
  { mode: 'iptables', flavour: 'legacy', moments: [afterComparison] },
]
for (const { mode, flavour, moments } of cases) {
  describe(`${mode} mode in the flavour ${flavour}: a chain is flushed, repaired and reported once`, () => {
    for (const { when, meet } of moments) {
      it(when, async () => {
        const kernel = openModelKernel()
        let rules = 0
        meet(kernel.xtables(place.family, place.table, flavour), async () => {
          rules = await rulesIn[flavour](kernel)
          await flushes[flavour](kernel)
        })
        const lab = new PipelineLab({ kernel, flavour, config: { mode } })
        await lab.deliver(...web, synced)
        await lab.clock.advance(1500)
        kernel.xtNamespace.unlocks++
        await lab.clock.advance(60_000)
        assert.ok(rules > 0, 'the chain had rules, and was flushed')
        assert.equal(await rulesIn[flavour](kernel), rules)
        const lines = lab.log.find('info', 'Kernel state differs')
        assert.deepEqual(
          lines.map(({ fields }) => fields),
          [{ ipFamily: 'IPv4', table: place.table, missing: [], changed: [place.chain] }],
        )
        assert.match(await lab.registry.metrics(), /viaduct_drift_total\{[^}]*"chain-changed"[^}]*\} 1\n/u)
        await lab.stop()
      })
    }
  })
}
