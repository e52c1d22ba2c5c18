import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ObjectChange } from '../../../src/source/index.js'
import { Backlog, type Change, type LeftPorts } from '../../../src/engine/testing.js'
import { ManualClock } from '../../support/manual-clock.js'
import { slice } from '../../support/objects.js'

const period = 30_000
/** The start of the manual clock. */
const startMs = 1_700_000_000_000

class Bench {
  readonly clock = new ManualClock()
  readonly latencies: number[] = []
  readonly queued: number[] = []
  readonly backlog = new Backlog({
    family: 'ipv4',
    clock: this.clock,
    syncPeriodMs: period,
    metrics: {
      lastQueuedTimestampSeconds: { set: (seconds) => this.queued.push(seconds) },
      networkProgrammingSeconds: { observe: (seconds) => this.latencies.push(seconds) },
    },
  })
}

describe('the health of a family', () => {
  // A repair has no event, and the family stayed healthy for ever. Issue 35, B8.
  it('ends when runs without events have failed for two periods, and comes back with a complete one', async () => {
    const { backlog, clock } = new Bench()
    backlog.begin()
    backlog.waitOn()
    await clock.advance(period)
    backlog.begin()
    backlog.waitOn()
    await clock.advance(period - 1)
    assert.ok(backlog.health.isHealthy)
    await clock.advance(1)
    assert.equal(backlog.health.isHealthy, false)
    backlog.begin()
    backlog.settle()
    assert.ok(backlog.health.isHealthy)
  })

  it('stays bad when an event comes while runs fail, until a run is complete', async () => {
    const { backlog, clock } = new Bench()
    backlog.begin()
    backlog.waitOn()
    await clock.advance(2 * period)
    backlog.note([])
    assert.equal(backlog.health.isHealthy, false, 'the event waits')
    backlog.begin()
    assert.equal(backlog.health.isHealthy, false, 'the run is in progress')
    backlog.waitOn()
    assert.equal(backlog.health.isHealthy, false, 'the run has failed')
    backlog.begin()
    backlog.settle()
    assert.ok(backlog.health.isHealthy)
  })

  it('is good until the oldest event has waited for two periods, regardless of the number of runs', async () => {
    const { backlog, clock, queued } = new Bench()
    const isHealthy = (): boolean => backlog.health.isHealthy
    assert.ok(isHealthy())
    backlog.note([])
    await clock.advance(period)
    backlog.note([])
    assert.equal(backlog.begin().oldestEventMs, 0)
    await clock.advance(period - 1)
    assert.ok(isHealthy())
    await clock.advance(1)
    assert.equal(isHealthy(), false, 'during the run')
    backlog.waitOn()
    assert.equal(isHealthy(), false, 'after it has failed')
    assert.equal(backlog.begin().oldestEventMs, 0, 'the next run is for the same event')
    backlog.settle()
    assert.ok(isHealthy())
    assert.deepEqual(queued, [startMs / 1000, startMs / 1000 + 30])
  })

  it('counts an event during a run from its own time', async () => {
    const { backlog, clock } = new Bench()
    backlog.note([])
    backlog.begin()
    await clock.advance(2 * period - 1)
    backlog.note([])
    await clock.advance(1)
    assert.equal(backlog.health.isHealthy, false)
    backlog.settle()
    assert.ok(backlog.health.isHealthy)
    assert.equal(backlog.begin().oldestEventMs, 2 * period - 1)
  })

  it('treats a run without a result as failed', () => {
    const { backlog } = new Bench()
    backlog.note([])
    backlog.begin()
    assert.equal(backlog.begin().oldestEventMs, 0)
  })

  it('reports the last time when the kernel was up to date', async () => {
    const { backlog, clock } = new Bench()
    assert.equal(backlog.health.lastUpdatedMs, startMs)
    await clock.advance(1000)
    backlog.begin()
    backlog.waitOn()
    assert.equal(backlog.health.lastUpdatedMs, startMs)
    backlog.begin()
    backlog.settle()
    assert.deepEqual(backlog.health, { family: 'ipv4', lastUpdatedMs: startMs + 1000, isHealthy: true })
  })
})

/** A change of the endpoints of the Service, so many seconds after the start. */
function changeOf(serviceName: string, seconds: number): ObjectChange {
  const lastChangeMs = startMs + seconds * 1000
  return { type: 'set', object: slice(`${serviceName}-1`, serviceName, ['10.1.0.1'], { lastChangeMs }) }
}

function left(...services: readonly (string | undefined)[]): LeftPorts {
  return { isDirtySince: (service) => services.includes(service) }
}

describe('events of which service ports wait for another share', () => {
  it('stay with their time and objects, while those of other Services are in force', async () => {
    const { backlog, clock, latencies } = new Bench()
    await clock.advance(5000)
    backlog.note([changeOf('wide', 1)])
    await clock.advance(1000)
    backlog.note([changeOf('small', 4)])
    backlog.begin()
    const wide = left('default/wide')
    assert.equal(backlog.oldestInForce(wide), 6000)
    backlog.settle(wide)
    assert.deepEqual(latencies, [2])
    const none = { count: 0, first: [] }
    assert.deepEqual(backlog.begin(), { oldestEventMs: undefined, objects: none }, 'nothing is taken yet')
    backlog.noteTaken(['default/wide'])
    const objects = { count: 1, first: ['EndpointSlice default/wide-1'] }
    assert.deepEqual(backlog.join(), { oldestEventMs: 5000, objects })
    await clock.advance(2 * period - 1001)
    assert.ok(backlog.health.isHealthy)
    await clock.advance(1)
    assert.equal(backlog.health.isHealthy, false, 'the wide Service waits for two periods')
    assert.equal(backlog.oldestInForce(), 5000)
    backlog.settle()
    assert.ok(backlog.health.isHealthy)
    assert.deepEqual(latencies, [2, 64])
  })

  it('wait for the generation of their own run, not for later changes of the Service', () => {
    const { backlog } = new Bench()
    const asked: number[] = []
    const since = {
      isDirtySince: (_service: string | undefined, generation: number) => {
        asked.push(generation)
        return generation > 7
      },
    }
    backlog.note([changeOf('wide', 1)])
    backlog.begin()
    backlog.join(8)
    backlog.settle(since)
    backlog.begin()
    backlog.noteTaken(['default/wide'])
    assert.equal(backlog.join(9).objects.count, 1)
    assert.equal(backlog.oldestInForce(since), undefined)
    assert.ok(asked.every((generation) => generation === 8))
    backlog.settle({ isDirtySince: (_service, generation) => generation > 8 })
    backlog.noteTaken(['default/wide'])
    assert.equal(backlog.begin().objects.count, 0)
  })

  it('stay when the next run fails, and are in force with the run after it', () => {
    const { backlog } = new Bench()
    backlog.note([changeOf('wide', 1)])
    backlog.begin()
    backlog.settle(left('default/wide'))
    backlog.begin()
    backlog.noteTaken(['default/wide'])
    backlog.waitOn()
    assert.equal(backlog.begin().objects.count, 1)
    backlog.settle(left())
    backlog.noteTaken(['default/wide'])
    assert.deepEqual(backlog.begin(), { oldestEventMs: undefined, objects: { count: 0, first: [] } })
  })

  it('are those of the Service that lost a slice, and those of no Service wait for any', () => {
    const { backlog } = new Bench()
    const removed: ObjectChange = {
      type: 'delete',
      kind: 'EndpointSlice',
      key: { namespace: 'default', name: 'small-1' },
    }
    backlog.note([{ type: 'slice-gone', service: 'default/small' }, removed])
    backlog.note([])
    backlog.begin()
    backlog.settle(left('default/small'))
    backlog.noteTaken(['default/small'])
    assert.equal(backlog.begin().objects.count, 1)
    backlog.settle()
    backlog.note([])
    backlog.begin()
    backlog.settle(left(undefined))
    assert.equal(backlog.begin().oldestEventMs, 0)
  })

  // Each share looked at all of them. 50,000 changed Services took minutes. Issue 37.
  it('cost a run nothing if it takes no service port of them', () => {
    const { backlog } = new Bench()
    const services = Array.from({ length: 100 }, (_, i) => `s${i}`)
    let asked = 0
    const all: LeftPorts = {
      isDirtySince: () => {
        asked++
        return true
      },
    }
    backlog.note(services.map((name) => changeOf(name, 1)))
    backlog.begin()
    backlog.settle(all)
    assert.equal(asked, 100)
    backlog.begin()
    backlog.noteTaken(['default/s7'])
    assert.equal(backlog.join().objects.count, 1)
    backlog.oldestInForce(all)
    backlog.settle(all)
    assert.equal(asked, 102)
  })

  it('have no latency any more when the Service loses a slice', () => {
    const { backlog, latencies } = new Bench()
    backlog.note([changeOf('wide', 1)])
    backlog.begin()
    backlog.settle(left('default/wide'))
    backlog.note([gone('default/wide')])
    backlog.begin()
    backlog.settle()
    assert.deepEqual(latencies, [])
  })
})

function changed(name: string, secondsAfterStart: number | undefined, address = '10.1.0.1'): ObjectChange {
  const lastChangeMs = secondsAfterStart === undefined ? undefined : startMs + secondsAfterStart * 1000
  return { type: 'set', object: slice(name, 'web', [address], { lastChangeMs }) }
}

function gone(service: string): Change {
  return { type: 'slice-gone', service }
}

describe('the latency of a change of endpoints', () => {
  const cases: readonly { name: string; events: readonly Change[]; latencies: readonly number[] }[] = [
    { name: 'is observed for each change', events: [changed('a', 1), changed('b', 7)], latencies: [9, 3] },
    {
      name: 'is not observed for a slice without a trigger time',
      events: [changed('a', undefined)],
      latencies: [],
    },
    {
      name: 'is not observed for a change older than the process',
      events: [changed('a', -1)],
      latencies: [],
    },
    {
      name: 'is observed only by the pipeline of its family',
      events: [changed('a', 1, 'fd00::1')],
      latencies: [],
    },
    {
      name: 'is not observed after a slice of the Service was deleted',
      events: [changed('a', 1), changed('b', 2), gone('default/web')],
      latencies: [],
    },
    {
      name: 'is observed after a deletion in another Service, or before the change',
      events: [gone('default/web'), changed('a', 1), gone('default/other'), gone('other/web')],
      latencies: [9],
    },
    { name: 'is never negative', events: [changed('a', 60)], latencies: [0] },
  ]
  for (const { name, events, latencies } of cases) {
    it(name, async () => {
      const bench = new Bench()
      await bench.clock.advance(10_000)
      bench.backlog.note(events)
      bench.backlog.begin()
      bench.backlog.settle()
      bench.backlog.begin()
      bench.backlog.settle()
      assert.deepEqual(bench.latencies, latencies)
    })
  }

  it('lasts until a run succeeds', async () => {
    const bench = new Bench()
    bench.backlog.note([changed('a', 1)])
    bench.backlog.begin()
    bench.backlog.waitOn()
    assert.deepEqual(bench.latencies, [])
    await bench.clock.advance(5000)
    bench.backlog.note([changed('b', 2)])
    bench.backlog.begin()
    bench.backlog.settle()
    assert.deepEqual(bench.latencies, [4, 3])
  })
})

describe('the objects of a run', () => {
  it('are those of the events since the run before, each once', () => {
    const { backlog } = new Bench()
    backlog.note([changed('a', 1), changed('b', 2), gone('default/web'), changed('a', 3)])
    const key = { namespace: '', name: 'node-a' }
    backlog.note([{ type: 'delete', kind: 'Node', key }])
    const first = ['EndpointSlice default/a', 'EndpointSlice default/b', 'Node node-a']
    assert.deepEqual(backlog.begin().objects, { count: 3, first })
    backlog.settle()
    assert.deepEqual(backlog.begin().objects, { count: 0, first: [] })
  })

  it('wait again with the later ones if the run failed', () => {
    const { backlog } = new Bench()
    backlog.note([changed('a', 1)])
    backlog.begin()
    backlog.note([changed('b', 2), changed('a', 3)])
    backlog.waitOn()
    const first = ['EndpointSlice default/a', 'EndpointSlice default/b']
    assert.deepEqual(backlog.begin().objects, { count: 2, first })
  })

  it('are counted beyond those that are named', () => {
    const { backlog } = new Bench()
    const names = Array.from({ length: 20 }, (_, index) => `s${index}`)
    backlog.note(names.map((name) => changed(name, 1)))
    backlog.begin()
    backlog.waitOn()
    const first = names.slice(0, 8).map((name) => `EndpointSlice default/${name}`)
    assert.deepEqual(backlog.begin().objects, { count: 20, first })
  })
})
