// A change of a wide Service is written in shares, and the changes of other Services come between them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { ConfigInput } from '../../src/config/index.js'
import { type Mode, Synchronizer } from '../../src/engine/index.js'
import { servicePortKey } from '../../src/model/testing.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { openModelKernel } from '../model/index.js'
import { settle } from '../support/manual-clock.js'
import { NftModeLab } from '../support/nft-mode-lab.js'
import { port, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'
import { openRecordingFamily, openSurroundings, syncPeriodMs } from '../support/recording-family.js'
import { anyEvent, finalObjects } from '../support/worlds.js'

const widePorts = Array.from({ length: 300 }, (_, i) => i + 1)
const wide = service('wide', '10.96.0.1', { ports: widePorts.map((n) => port(n, { name: `p${n}` })) })
const innocentKey = servicePortKey('default/innocent', '/TCP')
/** The last one of the wide Service by name. */
const wideKey = servicePortKey('default/wide', 'p99/TCP')

/** 300 ports with 29 endpoints: 9000 units of work, in shares of 4096. The clock of the lab shows no time, and their size stays. */
function wideSlice(without: number, lastChangeMs?: number): ObjectEvent {
  const addresses = Array.from({ length: 30 }, (_, i) => `10.1.0.${i + 1}`).toSpliced(without, 1)
  const ports = widePorts.map((n) => ({ name: `p${n}`, protocol: 'TCP' as const, port: 8000 + n }))
  return set(slice('wide-1', 'wide', addresses, { ports, lastChangeMs }))
}

function innocentSlice(last: number, lastChangeMs?: number): ObjectEvent {
  return set(slice('innocent-1', 'innocent', [`10.2.0.${last}`], { lastChangeMs }))
}

async function openWideLab(lab: PipelineLab): Promise<PipelineLab> {
  await lab.deliver(set(wide), wideSlice(0), set(service('innocent', '10.96.0.2')), innocentSlice(1), synced)
  await lab.clock.advance(10_000)
  return lab
}

const modes: readonly { readonly name: string; readonly open: (config?: ConfigInput) => PipelineLab }[] = [
  { name: 'nftables', open: (config = {}) => new NftModeLab({ config }) },
  { name: 'iptables in nf_tables', open: (config = {}) => new NftModeLab({ config, mode: 'iptables' }) },
  { name: 'ipvs', open: (config = {}) => new PipelineLab({ config: { ...config, mode: 'ipvs' } }) },
  { name: 'userspace', open: (config = {}) => new PipelineLab({ config: { ...config, mode: 'userspace' } }) },
]

/** The seconds of all observed latencies of IPv4, and their number. */
async function latencies(lab: PipelineLab): Promise<readonly number[]> {
  const text = await lab.registry.metrics()
  return ['count', 'sum'].map((suffix) => {
    const name = `kubeproxy_network_programming_duration_seconds_${suffix}{ip_family="IPv4"}`
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(name))
        ?.slice(name.length) ?? 0,
    )
  })
}

for (const { name, open } of modes) {
  describe(`a change of a wide Service in ${name} mode`, () => {
    it('lets the change of another Service into the next share', async () => {
      const lab = await openWideLab(open())
      const before = lab.synchronizer.passes.length
      const pipeline = lab.pipelines.get('ipv4')
      assert.ok(pipeline)
      const startMs = lab.clock.unixMs()
      /** At the end of each run: which service ports are in force, and the observed latencies. */
      const seen: unknown[] = []
      const cancel = lab.synchronizer.onRunEnd(() => {
        if (lab.synchronizer.passes.length === before + 1 && seen.length === 0)
          lab.intake.deliver([innocentSlice(2, startMs - 3000)])
        const inForce = [innocentKey, wideKey].map((key) => pipeline.inForceSince(key) !== undefined)
        seen.push([pipeline.isUnfinished, ...inForce])
      })
      const first = await latencies(lab)
      await lab.deliver(wideSlice(1, startMs - 7000))
      // In nf_tables, times without transactions lie between them.
      await lab.clock.advance(300)
      cancel()
      const passes = lab.synchronizer.passes.slice(before)
      assert.deepEqual(lab.crashes, [])
      assert.deepEqual(
        passes.map(({ changed, isComplete }) => [isComplete, changed.first.includes(innocentKey)]),
        [
          [true, false],
          [true, true],
          [true, false],
        ],
      )
      assert.deepEqual(seen, [
        // Its change waits, and is not applied yet.
        [true, true, false],
        [true, true, false],
        [false, true, true],
      ])
      assert.equal(
        passes.reduce((sum, { changed }) => sum + changed.count, 0),
        301,
      )
      const [count = 0, sum = 0] = await latencies(lab)
      assert.deepEqual([count - (first[0] ?? 0), Math.round(sum - (first[1] ?? 0))], [2, 10])
      assert.deepEqual(passes[2]?.objects.first, ['EndpointSlice default/wide-1'])
      assert.ok(pipeline.health.isHealthy)
      await lab.stop()
    })

    it('ends after the share in progress when the agent stops', async () => {
      const lab = await openWideLab(open())
      const before = lab.synchronizer.passes.length
      let stopped: Promise<void> | undefined
      lab.synchronizer.onRunEnd(() => {
        stopped ??= lab.stop()
      })
      await lab.deliver(wideSlice(1))
      await stopped
      await lab.clock.advance(1000)
      assert.equal(lab.synchronizer.passes.length, before + 1)
      assert.deepEqual(lab.crashes, [])
    })
  })
}

describe('a change of a wide Service in iptables mode on legacy tables', () => {
  it('is one write, because a write costs as much as the table', async () => {
    const lab = await openWideLab(new PipelineLab({ config: { mode: 'iptables' } }))
    const before = lab.synchronizer.passes.length
    await lab.deliver(wideSlice(1), innocentSlice(2))
    const passes = lab.synchronizer.passes.slice(before)
    assert.deepEqual(
      passes.map(({ changed }) => changed.count),
      [301],
    )
    await lab.stop()
  })
})

describe('minSyncPeriod', () => {
  it('lies between syncs, and not between the shares of one that is shorter', async () => {
    const lab = await openWideLab(new NftModeLab({ config: { nftables: { minSyncPeriodMs: 5000 } } }))
    await lab.clock.advance(10_000)
    const before = lab.synchronizer.passes.length
    await lab.deliver(wideSlice(1))
    await lab.clock.advance(0)
    assert.equal(lab.synchronizer.passes.length, before + 3)
    await lab.deliver(innocentSlice(2))
    await lab.clock.advance(4999)
    assert.equal(lab.synchronizer.passes.length, before + 3)
    await lab.clock.advance(1)
    assert.equal(lab.synchronizer.passes.length, before + 4)
    await lab.stop()
  })
})

/** A mode that records routes, with shares of so many units. */
function openRecording(units?: number) {
  const surroundings = openSurroundings()
  const records: string[] = []
  const shareSize = units === undefined ? {} : { shareSize: { units, note: () => {} } }
  const mode: Mode = {
    name: 'nftables',
    families: ['ipv4'],
    syncPeriodMs,
    minSyncPeriodMs: 0,
    restFactor: 0,
    openPipeline: (family) => openRecordingFamily(family, surroundings, { records, ...shareSize }),
  }
  const synchronizer = new Synchronizer({
    ...surroundings,
    mode,
    links: openModelKernel().links,
    prepareNode: async () => true,
    housekeeping: async () => {},
    onInForce: () => {},
    onCrash: (error) => assert.fail(String(error)),
  })
  synchronizer.start()
  /** The last record of each service port that has routes. */
  const routes = (): ReadonlyMap<string, string> => {
    const last = new Map(records.map((line) => [line.split(' to ')[0] ?? '', line]))
    return new Map([...last].filter(([, line]) => !line.endsWith(' to undefined')))
  }
  return { ...surroundings, synchronizer, routes }
}

describe('shares of any size', () => {
  it('end with the routes of a fresh agent, and with all events in force', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(anyEvent, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 12 }),
        async (deliveries, units) => {
          const shared = openRecording(units)
          shared.intake.deliver([{ type: 'synced' }])
          await settle()
          // Each further delivery comes between two shares.
          const waiting = deliveries.slice(1)
          shared.synchronizer.onRunEnd(() => shared.intake.deliver(waiting.shift() ?? []))
          shared.intake.deliver(deliveries[0] ?? [])
          await settle()
          for (const events of waiting.splice(0)) shared.intake.deliver(events)
          await shared.clock.advance(1000)
          const fresh = openRecording()
          fresh.intake.deliver([...finalObjects(deliveries), synced])
          await settle()
          assert.deepEqual(shared.routes(), fresh.routes())
          const [family] = shared.synchronizer.views
          for (const { key } of family?.services.servicePorts() ?? [])
            assert.notEqual(family?.inForceSince(key), undefined, `${key} is in force`)
          await shared.clock.advance(syncPeriodMs * 3)
          assert.ok(family?.health.isHealthy)
          await Promise.all([shared.synchronizer.stop(), fresh.synchronizer.stop()])
        },
      ),
      { numRuns: 300 },
    )
  })
})
