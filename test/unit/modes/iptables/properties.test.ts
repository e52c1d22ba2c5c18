import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { ModelXtNamespace } from '../../../model/index.js'
import type { ObjectEvent } from '../../../../src/source/index.js'
import { IptablesLab, ruleLines } from '../../../support/iptables-lab.js'
import { endpoint, service, set, slice, synced } from '../../../support/objects.js'
import { anyHistory, finalObjects } from '../../../support/worlds.js'

const { EAGAIN, ENOMEM } = constants.errno
const tables = (['ipv4', 'ipv6'] as const).flatMap((family) =>
  (['nat', 'filter'] as const).map((table) => [family, table] as const),
)

/** The tables after a start with these objects. */
async function fresh(
  objects: readonly ObjectEvent[],
  xtNamespace?: ModelXtNamespace,
): Promise<ModelXtNamespace> {
  const lab = new IptablesLab(xtNamespace === undefined ? {} : { xtNamespace })
  await lab.deliver(...objects, synced)
  assert.deepEqual(lab.crashes, [])
  await lab.stop()
  return lab.kernel.xtNamespace
}

async function assertLeadsTo(lab: IptablesLab, objects: readonly ObjectEvent[]): Promise<void> {
  assert.deepEqual(lab.crashes, [])
  await lab.stop()
  assert.deepEqual(ruleLines(lab.kernel.xtNamespace), ruleLines(await fresh(objects)))
}

describe('properties of iptables mode', () => {
  it('incremental equals full: the steps give the same tables as a fresh start with the final objects', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, async (history) => {
        const lab = new IptablesLab()
        await lab.deliver(synced)
        for (const events of history) await lab.deliver(...events)
        await assertLeadsTo(lab, finalObjects(history))
      }),
      { numRuns: 200 },
    )
  })

  it('a second sync, passing time and a restart write nothing', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, async (history) => {
        const lab = new IptablesLab()
        await lab.deliver(...history.flat(), synced)
        const { writes } = lab
        await lab.deliver(...finalObjects(history))
        await lab.clock.advance(31_000)
        await lab.stop()
        await fresh(finalObjects(history), lab.kernel.xtNamespace)
        assert.equal(lab.writes, writes)
      }),
      { numRuns: 100 },
    )
  })

  // Issue 43 B4: `status` listed "nat 25 set-chain, 3 set-hook" as operations of a restart that wrote nothing.
  it('the passes of a restart that writes nothing have no operations, and those of the start have some', async () => {
    const objects = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', [endpoint('10.244.0.1')]))]
    const namespace = new ModelXtNamespace()
    for (const hasOperations of [true, false]) {
      const lab = new IptablesLab({ xtNamespace: namespace })
      await lab.deliver(...objects, synced)
      const passes = lab.pipelines.get('ipv4')?.passes ?? []
      assert.ok(passes.length > 0)
      const kinds = passes.flatMap(({ operations }) => Object.keys(operations))
      const lines = passes.flatMap((pass) => pass.firstOperations())
      assert.deepEqual([kinds.includes('nat'), lines.length > 0], [hasOperations, hasOperations])
      if (!hasOperations) assert.deepEqual(kinds, [])
      await lab.stop()
    }
  })

  it('a restart with other objects gives the same tables as a fresh start, also when some objects arrive late', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, anyHistory, async (before, after) => {
        const xtNamespace = await fresh(finalObjects(before))
        const lab = new IptablesLab({ xtNamespace })
        await lab.deliver(...(after[0] ?? []), { type: 'listed' })
        for (const events of after.slice(1)) await lab.deliver(...events)
        await lab.deliver(synced)
        await assertLeadsTo(lab, finalObjects(after))
      }),
      { numRuns: 150 },
    )
  })

  it('the final tables are the same after any refused writes and foreign flushes', async () => {
    const fault = fc.constantFrom(undefined, undefined, EAGAIN, ENOMEM)
    const faults = fc.array(fault, { minLength: 1, maxLength: 12 })
    const flushed = fc.constantFrom(undefined, ...tables)
    await fc.assert(
      fc.asyncProperty(anyHistory, faults, flushed, async (history, plan, flush) => {
        const lab = new IptablesLab()
        let next = 0
        for (const [family, table] of tables)
          lab.kernel.xtables(family, table).plan = { callFault: () => plan[next++ % plan.length] }
        await lab.deliver(synced)
        for (const events of history) {
          await lab.deliver(...events)
          if (flush !== undefined) lab.kernel.xtNamespace.table(...flush).flush()
        }
        for (const [family, table] of tables) lab.kernel.xtables(family, table).plan = {}
        await lab.clock.advance(120_000)
        await assertLeadsTo(lab, finalObjects(history))
      }),
      { numRuns: 150 },
    )
  })
})
