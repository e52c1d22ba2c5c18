import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { VipBinding } from '../../src/config/index.js'
import type { BatchOutcome } from '../../src/kernel/index.js'
import { remove, service, set, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const names = Array.from({ length: 5000 }, (_, i) => `s${i}`)
const services = names.map((name, i) => set(service(name, `10.97.${i >> 8}.${i & 255}`)))

/** An apply() that accepts every batch at once and records its size. */
function accept(sizes: number[], then: () => void) {
  return async (ops: { readonly length: number }): Promise<BatchOutcome> => {
    sizes.push(ops.length)
    then()
    return { applied: ops.length, failures: [] }
  }
}

/** A lab whose kernel accepts every batch. It can stop the agent during a batch. */
function quickLab(vipBinding: VipBinding) {
  const lab = new PipelineLab({ vipBinding })
  const sent = { ipvs: new Array<number>(), routes: new Array<number>(), stopAfter: Infinity }
  const then = (): void => {
    if (sent.ipvs.length + sent.routes.length === sent.stopAfter) void lab.stop()
  }
  lab.kernel.ipvs.apply = accept(sent.ipvs, then)
  lab.kernel.routes.apply = accept(sent.routes, then)
  return { lab, sent }
}

const descending = (a: number, b: number): number => b - a
const tenCuts = [...Array.from({ length: 9 }, () => 512), 392]
const upserts = [1024, 1024, 1024, 1024, 904]
const removals = [4096, 904]

describe('a stop during the sync of thousands of Services', () => {
  const cases = [
    // VIPs are bound as soon as their virtual servers exist.
    ['routes', upserts, removals],
    ['addresses', tenCuts, tenCuts],
  ] as const
  for (const [vipBinding, binds, unbinds] of cases) {
    it(`waits for one short batch of many (${vipBinding})`, async () => {
      const { lab, sent } = quickLab(vipBinding)
      await lab.deliver(...services, synced)
      // Two parts of the sync are in flight, so their route batches alternate.
      assert.deepEqual(sent.routes.splice(0).toSorted(descending), binds)
      assert.deepEqual(sent.ipvs.splice(0), upserts)
      await lab.deliver(...names.map((name) => remove('Service', name)))
      assert.deepEqual(sent.routes, unbinds)
      assert.deepEqual(sent.ipvs, removals)
      await lab.stop()
    })
  }

  for (const stopAfter of [1, 2, 5]) {
    it(`during batch ${stopAfter} is followed by no other batch`, async () => {
      const { lab, sent } = quickLab('addresses')
      sent.stopAfter = stopAfter
      await lab.deliver(...services, synced)
      assert.equal(sent.ipvs.length + sent.routes.length, stopAfter)
      await lab.stop()
    })
  }
})
