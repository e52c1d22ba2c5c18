// Issue 36, point 6: the owner of each frontend is decided once, before the modes (docs/adr/0007).
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { afterEach, describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { ConfigInput } from '../../src/config/index.js'
import { printTransaction } from '../../src/kernel/index.js'
import { route } from '../../src/routing/index.js'
import type { ObjectEvent, Service } from '../../src/source/index.js'
import type { ModelKernel } from '../model/index.js'
import { deliverApart, here, openConflictLab } from '../support/conflict-lab.js'
import { nftLines } from '../support/nft-mode-lab.js'
import { port, remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, snapshot } from '../support/pipeline-lab.js'
import { anyBusyService, anyEvent, finalObjects } from '../support/worlds.js'

type ModeName = NonNullable<ConfigInput['mode']>
const modes: readonly { readonly mode: ModeName; readonly flavour?: 'nft' }[] = [
  { mode: 'iptables' },
  { mode: 'iptables', flavour: 'nft' },
  { mode: 'ipvs' },
  { mode: 'nftables' },
  { mode: 'userspace' },
]

const shared = '203.0.113.7'
const { EINVAL } = constants.errno

/** Longer than every retry, and than the time between two full comparisons. */
const restMs = 400_000

const errnoAt = (text: string): number | undefined => (text.includes(shared) ? EINVAL : undefined)

/** Makes the kernel refuse each object at the shared address; false: it takes them again. */
function refuse(kernel: ModelKernel, isRefused: boolean): void {
  kernel.nftables.plan = isRefused ? { fault: (op) => errnoAt(printTransaction([op])) } : {}
  const ofTables = isRefused ? { ruleFault: (rule: object) => errnoAt(JSON.stringify(rule)) } : {}
  for (const table of kernel.xtNamespace.active('ipv4')) kernel.xtables('ipv4', table).plan = ofTables
  kernel.relay.batches.plan = isRefused ? { fault: (op) => errnoAt(JSON.stringify(op)) } : {}
  kernel.ipvs.batches.plan = isRefused ? { fault: (op) => errnoAt(JSON.stringify(op)) } : {}
}

/** The objects of the mode in the kernel, as lines: equal states have equal lines. */
async function objectsOf(kernel: ModelKernel): Promise<readonly string[]> {
  const tables = (['ipv4', 'ipv6'] as const).flatMap((family) =>
    kernel.xtNamespace
      .active(family)
      .flatMap((table) => kernel.xtNamespace.table(family, table).save().split('\n')),
  )
  const { listeners, services } = kernel.relay
  const relay = [...listeners.values()].map((listener) => {
    const { id, ...rest } = services.get(listener.service) ?? { id: 0 }
    return JSON.stringify([{ ...listener, service: id === 0 ? 'none' : rest }])
  })
  // Chains and sets may stay until a start for what was in use before.
  const elements = nftLines(kernel.nftables.namespace).filter((line) => line.startsWith('add element'))
  return [...(await snapshot(kernel)), ...tables, ...relay, ...elements].toSorted()
}

function web(name: 'a' | 'b', rest: Partial<Service> = {}): readonly ObjectEvent[] {
  const last = name === 'a' ? 1 : 2
  const clusterIP = `10.96.0.${last}`
  return [
    set(service(name, clusterIP, { externalIPs: [shared], ...rest })),
    set(slice(name, name, [`10.1.0.${last}`])),
  ]
}

/** The names of the Services to which the kernel leads connections to the shared address. */
async function leadsTo(lab: PipelineLab): Promise<readonly string[]> {
  const lines = (await objectsOf(lab.kernel)).filter((line) => line.includes(shared))
  const isOf = (name: string, endpoint: string): boolean =>
    lines.some((line) => line.includes(`default/${name} external IP`) || line.includes(endpoint))
  return [...(isOf('a', '10.1.0.1') ? ['a'] : []), ...(isOf('b', '10.1.0.2') ? ['b'] : [])]
}

/** Records from now on what would leave a gap at the shared address, and the writes of tables. */
function watched({ ipvs, relay, nftables, xtNamespace }: ModelKernel) {
  ipvs.batches.take()
  relay.batches.take()
  const countWrites = (): number => {
    const nat = xtNamespace.active('ipv4').includes('nat') ? xtNamespace.table('ipv4', 'nat').writes : 0
    return nat + nftables.transactions.length
  }
  const before = countWrites()
  return () => {
    const removals = [
      ...ipvs.batches.take().filter(({ op }) => op === 'remove-virtual-server'),
      ...relay.batches.take().filter(({ op }) => op === 'remove-listener'),
    ].map((op) => JSON.stringify(op))
    return { removals: removals.filter((op) => op.includes(shared)), writes: countWrites() - before }
  }
}

/** Whether a rule or a set of the mode lets health checks in. */
async function letsIn({ kernel }: PipelineLab): Promise<boolean> {
  const sets = await kernel.ipset.sets()
  const inSet = sets.some(({ name, elements }) => name === 'KUBE-HEALTH-CHECK-NODE-PORT' && elements > 0)
  const lines = [...(await objectsOf(kernel)), ...nftLines(kernel.nftables.namespace)]
  return inSet || lines.some((line) => /KUBE-NODEPORTS .*accept/iu.test(line))
}

/** The kernel objects that the agent describes for the only port of the Service. */
function described({ pipelines, node: { facts } }: PipelineLab, name: string): readonly string[] {
  const view = pipelines.get('ipv4')
  const [only] = view?.services.servicePortsOf(`default/${name}`) ?? []
  assert.ok(view !== undefined && only !== undefined)
  return view.describe(route(only, view.services.endpoints(only), facts))
}

for (const { mode, flavour = 'legacy' } of modes)
  describe(`frontends of several Services, ${mode} mode, flavour ${flavour}`, () => {
    const labs: PipelineLab[] = []
    afterEach(async () => {
      for (const lab of labs.splice(0)) await lab.stop()
    })

    async function open(...events: readonly ObjectEvent[]): Promise<PipelineLab> {
      const lab = await openConflictLab({ mode, flavour }, ...events)
      labs.push(lab)
      return lab
    }

    it('after any history, with refused objects, the objects are those of a fresh agent', async () => {
      const change: fc.Arbitrary<ObjectEvent> = fc.oneof(
        { weight: 4, arbitrary: anyBusyService.map(set) },
        { weight: 2, arbitrary: anyEvent },
        { weight: 2, arbitrary: fc.constantFrom('a', 'b', 'c', 'd').map((name) => remove('Service', name)) },
      )
      const step = fc.record({ events: fc.array(change, { maxLength: 4 }), isRefused: fc.boolean() })
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 6 }), async (history) => {
          const lab = await open()
          for (const { events, isRefused } of history) {
            refuse(lab.kernel, isRefused)
            await deliverApart(lab, ...events)
          }
          refuse(lab.kernel, false)
          await lab.clock.advance(restMs)
          const fresh = await open(...finalObjects(history.map(({ events }) => events)))
          await fresh.clock.advance(restMs)
          assert.deepEqual(lab.crashes, [])
          assert.deepEqual(await objectsOf(lab.kernel), await objectsOf(fresh.kernel))
          for (const each of labs.splice(0)) await each.stop()
        }),
        { numRuns: 25, includeErrorInReport: true },
      )
    })

    it('a frontend moves in one transaction, and is there all the time', async () => {
      const lab = await open(...web('a', { createdSeconds: 2 }), ...web('b', { createdSeconds: 3 }))
      const moves: readonly (readonly [string, readonly ObjectEvent[]])[] = [
        ['b', web('b', { createdSeconds: 1 })],
        ['a', [remove('Service', 'b')]],
        ['b', web('b', { createdSeconds: 1 })],
        ['a', web('b', { externalIPs: [] })],
      ]
      for (const [owner, events] of moves) {
        const seen = watched(lab.kernel)
        await deliverApart(lab, ...events)
        const { removals, writes } = seen()
        assert.deepEqual(removals, [])
        if (mode === 'iptables' || mode === 'nftables') assert.equal(writes, 1)
        // Real servers of the former owner drain.
        await lab.clock.advance(10_000)
        assert.deepEqual(await leadsTo(lab), [owner])
      }
    })

    it('a frontend whose objects the kernel refuses keeps its owner', async () => {
      const lab = await open(...web('b'))
      assert.deepEqual(await leadsTo(lab), ['b'])
      refuse(lab.kernel, true)
      await deliverApart(lab, ...web('a'))
      const view = lab.pipelines.get('ipv4')
      assert.equal(
        described(lab, 'b').some((line) => line.includes(shared)),
        false,
      )
      assert.equal(view?.hasRefusals, true)
      refuse(lab.kernel, false)
      await lab.clock.advance(restMs)
      assert.deepEqual(await leadsTo(lab), ['a'])
    })

    // A port without a frontend had the health check port alone: no rule let the checks in.
    it('a Service keeps its health check while one of its ports has a frontend', async () => {
      const lab = await open(set(service('a', '10.96.0.1', { createdSeconds: 1 })))
      const own = {
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 30_999,
      } as const
      const ports = [port(80, { name: 'first' }), port(81, { name: 'second' })]
      await deliverApart(lab, set(service('b', '10.96.0.1', { ...own, ports })))
      assert.deepEqual([...lab.healthChecks.checks.keys()], ['default/b'])
      assert.equal(await letsIn(lab), mode === 'iptables' || mode === 'ipvs')
      await deliverApart(lab, set(service('b', '10.96.0.1', { ...own, ports: ports.slice(1) })))
      assert.equal(await letsIn(lab), mode === 'iptables' || mode === 'ipvs')
      await deliverApart(lab, remove('Service', 'b'))
      assert.equal(await letsIn(lab), false)
    })

    it('the description of a service port has no line for a frontend that another one has', async () => {
      const lab = await open(...web('a'), ...web('b'))
      const lines = described(lab, 'b')
      assert.ok(lines.some((line) => line.includes('10.96.0.2')))
      assert.deepEqual(
        lines.filter((line) => line.includes(shared)),
        [],
      )
      assert.ok(described(lab, 'a').some((line) => line.includes(shared)))
    })

    it('a service port without a frontend of its own has no objects', async () => {
      const lab = await open(...web('a'))
      const before = await objectsOf(lab.kernel)
      const rest = { clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1'], createdSeconds: undefined }
      await deliverApart(lab, ...web('b', rest))
      assert.deepEqual(described(lab, 'b'), [])
      assert.deepEqual(await objectsOf(lab.kernel), before)
    })
  })

describe('a Service that loses all of its frontends in ipvs mode', () => {
  it('gets no warning of its scheduler, however often it changes, and one when it has a frontend', async () => {
    const lab = new PipelineLab()
    const warnings = (): number => lab.log.find('warn', 'viaduct.dev/ipvs-scheduler').length
    const lost = service('b', '10.96.0.1', { createdSeconds: 2, scheduling: { scheduler: 'nosuch' } })
    await deliverApart(lab, here, set(service('a', '10.96.0.1', { createdSeconds: 1 })), set(lost), synced)
    for (const last of [1, 2, 3]) await deliverApart(lab, set(slice('b', 'b', [`10.1.0.${last}`])))
    assert.equal(warnings(), 0)
    await deliverApart(lab, remove('Service', 'a'))
    await deliverApart(lab, set(slice('b', 'b', ['10.1.0.4'])))
    assert.equal(warnings(), 1)
    await lab.stop()
  })
})
