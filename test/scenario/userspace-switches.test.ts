// A switch from and to userspace mode: a VIP is local all the time, and the objects of the former mode go.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { cleanUpAll } from '../../src/agent/testing.js'
import type { ProxyMode } from '../../src/config/index.js'
import { RouteCursor } from '../../src/kernel/index.js'
import { userspaceRouteMetric } from '../../src/layers/vips/index.js'
import { type ModelKernel, openModelKernel } from '../model/index.js'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]

function open(kernel: ModelKernel, mode: ProxyMode): PipelineLab {
  return new PipelineLab({ kernel, config: { mode }, flavour: mode === 'nftables' ? 'nft' : 'legacy' })
}

/** The kernel after an agent in this mode. */
async function after(mode: ProxyMode): Promise<ModelKernel> {
  const lab = open(openModelKernel(), mode)
  await lab.deliver(...web, synced)
  await lab.stop()
  lab.kernel.routes.batches.take()
  return lab.kernel
}

/** `userspace` and `default`, by the metric of the routes to the VIP. */
async function vipRoutes({ routes }: ModelKernel): Promise<readonly string[]> {
  const cursor = new RouteCursor(await routes.dumpLocalRoutes('ipv4'))
  return Array.from({ length: cursor.length }, (_, i) => cursor.route(i))
    .filter(({ address }) => address === '10.96.0.1')
    .map(({ metric }) => (metric === userspaceRouteMetric ? 'userspace' : 'default'))
}

/** The changes of VIP routes since the last call: `add-route default`. */
function routeChanges({ routes }: ModelKernel): readonly string[] {
  return routes.batches.take().flatMap((op) => {
    if (!('route' in op)) return []
    return [`${op.op} ${op.route.metric === userspaceRouteMetric ? 'userspace' : 'default'}`]
  })
}

describe('a switch', () => {
  it('from ipvs to userspace mode adds the new route before the former one goes', async () => {
    const kernel = await after('ipvs')
    const lab = open(kernel, 'userspace')
    await lab.deliver(...web, synced)
    assert.deepEqual(routeChanges(kernel), ['add-route userspace', 'remove-route default'])
    assert.deepEqual(await vipRoutes(kernel), ['userspace'])
    const { virtualServers } = await kernel.ipvs.dump('ipv4')
    assert.deepEqual([virtualServers.length, await kernel.ipset.sets()], [0, []])
    assert.equal(kernel.relay.listeners.size, 1)
    await lab.stop()
  })

  it('from userspace to ipvs mode adds the new route before the former one goes', async () => {
    const kernel = await after('userspace')
    const lab = open(kernel, 'ipvs')
    await lab.deliver(...web, synced)
    assert.deepEqual(routeChanges(kernel), ['add-route default', 'remove-route userspace'])
    assert.deepEqual(await vipRoutes(kernel), ['default'])
    await lab.stop()
  })

  for (const mode of ['iptables', 'nftables'] as const) {
    it(`from userspace to ${mode} mode removes the routes`, async () => {
      const kernel = await after('userspace')
      const lab = open(kernel, mode)
      await lab.deliver(...web, synced)
      await lab.clock.advance(1000)
      assert.deepEqual(await vipRoutes(kernel), [])
      assert.equal(
        lab.log.find('info', 'Leftovers of userspace mode: removed 1 VIP routes of userspace mode').length,
        1,
      )
      await lab.stop()
    })
  }

  it('is not needed for --cleanup, which removes the routes of userspace mode', async () => {
    const kernel = await after('userspace')
    const { text, isComplete } = await cleanUpAll(kernel, [])
    assert.match(text, /; removed 1 VIP routes/u)
    assert.deepEqual([isComplete, await vipRoutes(kernel)], [true, []])
  })
})
