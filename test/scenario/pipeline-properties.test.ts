import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { VipBinding } from '../../src/config/index.js'
import {
  describeVirtualServer,
  type IpvsOp,
  type RealServer,
  type VirtualServerKey,
} from '../../src/kernel/index.js'
import { openModelKernel, type Fault, type ModelKernel } from '../model/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { synced } from '../support/objects.js'
import { PipelineLab, snapshot } from '../support/pipeline-lab.js'
import { anyHistory, finalObjects } from '../support/worlds.js'

const { ENOMEM, ENOBUFS, EEXIST, ESRCH, ENOENT, EINVAL } = constants.errno

const binding = fc.constantFrom<VipBinding>('routes', 'addresses')

/** Time in which real servers without connections drain. */
const drainMs = 5000

/** The kernel after an agent received this history batch by batch and stopped. */
async function live(
  history: readonly (readonly ObjectEvent[])[],
  vipBinding: VipBinding,
  kernel = openModelKernel(),
) {
  const lab = new PipelineLab({ kernel, vipBinding })
  await lab.deliver(synced)
  for (const events of history) await lab.deliver(...events)
  await lab.clock.advance(drainMs)
  assert.deepEqual(lab.crashes, [])
  await lab.stop()
  return lab
}

async function fresh(objects: readonly ObjectEvent[], vipBinding: VipBinding, kernel = openModelKernel()) {
  const lab = new PipelineLab({ kernel, vipBinding })
  await lab.deliver(...objects, synced)
  await lab.clock.advance(drainMs)
  await lab.stop()
  return lab
}

describe('properties of the pipeline', () => {
  it('incremental equals full: a history has the same result as a fresh start with its final objects', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, binding, async (history, vipBinding) => {
        const stepwise = await live(history, vipBinding)
        const full = await fresh(finalObjects(history), vipBinding)
        assert.deepEqual(await snapshot(stepwise.kernel), await snapshot(full.kernel))
      }),
      { numRuns: 300 },
    )
  })

  it('the order of final objects does not matter', async () => {
    const shuffled = anyHistory.chain((history) => {
      const objects = [...finalObjects(history)]
      return fc.tuple(fc.constant(objects), fc.shuffledSubarray(objects, { minLength: objects.length }))
    })
    await fc.assert(
      fc.asyncProperty(shuffled, async ([objects, others]) => {
        const one = await fresh(objects, 'routes')
        const batches = others.map((event) => [event])
        assert.deepEqual(await snapshot((await live(batches, 'routes')).kernel), await snapshot(one.kernel))
      }),
      { numRuns: 150 },
    )
  })

  it('a second sync and a restart write nothing', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, binding, async (history, vipBinding) => {
        const kernel = openModelKernel()
        const lab = new PipelineLab({ kernel, vipBinding })
        await lab.deliver(...history.flat(), synced)
        lab.takeOps()
        await lab.deliver(...finalObjects(history))
        await lab.clock.advance(31_000)
        assert.deepEqual(lab.takeOps().filter(isLasting), [], 'second sync and reconcile')
        await lab.stop()
        const restarted = await fresh(finalObjects(history), vipBinding, kernel)
        assert.deepEqual(restarted.takeOps().filter(isLasting), [], 'restart')
      }),
      { numRuns: 150 },
    )
  })

  it('a restart with other objects, or another binding, has the same result as a fresh start', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyHistory,
        anyHistory,
        fc.tuple(binding, binding),
        async (before, after, [first, second]) => {
          const { kernel } = await live(before, first)
          await fresh(finalObjects(after), second, kernel)
          const expected = await fresh(finalObjects(after), second)
          assert.deepEqual(await snapshot(kernel), await snapshot(expected.kernel))
        },
      ),
      { numRuns: 150 },
    )
  })

  it('refusals and lost answers for some time do not change the result', async () => {
    const fault = fc.constantFrom<Fault>(
      undefined,
      undefined,
      undefined,
      'unknown',
      'lost',
      ENOMEM,
      ENOBUFS,
      EEXIST,
      ESRCH,
      ENOENT,
      EINVAL,
    )
    const faults = fc.array(fault, { minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(anyHistory, faults, binding, async (history, plan, vipBinding) => {
        const lab = new PipelineLab({ vipBinding })
        injectFaults(lab.kernel, plan)
        await lab.deliver(synced)
        for (const events of history) await lab.deliver(...events)
        injectFaults(lab.kernel, [])
        await lab.clock.advance(120_000)
        assert.deepEqual(lab.crashes, [])
        await lab.stop()
        const full = await fresh(finalObjects(history), vipBinding)
        assert.deepEqual(await snapshot(lab.kernel), await snapshot(full.kernel))
      }),
      { numRuns: 300 },
    )
  })

  it('with changing connections, drained real servers are removed, and no TCP connection is cut', async () => {
    const counts = fc.infiniteStream(fc.constantFrom(0, 0, 1))
    await fc.assert(
      fc.asyncProperty(anyHistory, counts, binding, async (history, connections, vipBinding) => {
        const lab = new PipelineLab({ vipBinding })
        const open = holdConnections(lab.kernel, connections)
        await lab.deliver(synced)
        for (const events of history) {
          await lab.deliver(...events)
          await lab.clock.advance(2500)
        }
        assert.deepEqual(open.cut, [])
        open.closeAll()
        await lab.clock.advance(60_000)
        assert.deepEqual(lab.crashes, [])
        await lab.stop()
        const full = await fresh(finalObjects(history), vipBinding)
        assert.deepEqual(await snapshot(lab.kernel), await snapshot(full.kernel))
      }),
      { numRuns: 200 },
    )
  })

  it('a stop after any number of operations, then a restart, has the same result', async () => {
    await fc.assert(
      fc.asyncProperty(anyHistory, fc.nat(40), binding, async (history, sent, vipBinding) => {
        const kernel = openModelKernel()
        dieAfter(kernel, sent)
        await live(history, vipBinding, kernel)
        injectFaults(kernel, [])
        const restarted = new PipelineLab({ kernel, vipBinding })
        await restarted.deliver(...finalObjects(history), synced)
        // A virtual server on a VIP that the restart has bound counts as ours at the next reconcile.
        await restarted.clock.advance(31_000)
        await restarted.stop()
        const full = await fresh(finalObjects(history), vipBinding)
        assert.deepEqual(await snapshot(kernel), await snapshot(full.kernel))
      }),
      { numRuns: 200 },
    )
  })
})

/** Whether the operation has a lasting effect. A virtual server that is added and removed to test a scheduler has none. */
function isLasting(op: string): boolean {
  return !op.endsWith(' tcp 198.51.100.0:20000')
}

/** Injects these faults into operations, repeatedly in this order. Empty: none. */
function injectFaults(kernel: ModelKernel, plan: readonly Fault[]): void {
  let next = 0
  const fault = ({ op }: { readonly op: string }): Fault => {
    const chosen = plan[next++ % plan.length]
    // Not injected: "not found" for an existing object. No kernel answers that, and the agent relies on it.
    const isFalseAbsence = op.startsWith('remove') && (chosen === ESRCH || chosen === ENOENT)
    return isFalseAbsence ? undefined : chosen
  }
  kernel.ipvs.batches.plan = plan.length === 0 ? {} : { fault }
  kernel.routes.batches.plan = plan.length === 0 ? {} : { fault }
}

function textOf(server: VirtualServerKey, { address, port }: RealServer['key']): string {
  return `${describeVirtualServer(server)} ${address} ${port}`
}

/** Gives each added TCP real server the next number of connections, until all are closed. */
function holdConnections(kernel: ModelKernel, counts: Iterator<number>) {
  const open = new Map<string, number>()
  const cut: string[] = []
  kernel.sysctl.values.set('net/ipv4/vs/expire_quiescent_template', '1')
  kernel.ipvs.traffic = (server, real) => ({ activeConnections: open.get(textOf(server, real)) ?? 0 })
  const fault = (op: IpvsOp): undefined => {
    if (op.op === 'add-real-server' && 'protocol' in op.server && op.server.protocol === 'tcp')
      open.set(textOf(op.server, op.real.key), counts.next().value ?? 0)
    if (op.op !== 'remove-real-server') return
    const text = textOf(op.server, op.real)
    if ((open.get(text) ?? 0) > 0) cut.push(text)
  }
  kernel.ipvs.batches.plan = { fault }
  return { cut, closeAll: () => open.clear() }
}

/** Loses all operations after the first `count`, as if the process had died. */
function dieAfter(kernel: ModelKernel, count: number): void {
  let sent = 0
  const fault = (): Fault => (sent++ < count ? undefined : 'lost')
  kernel.ipvs.batches.plan = { fault }
  kernel.routes.batches.plan = { fault }
}
