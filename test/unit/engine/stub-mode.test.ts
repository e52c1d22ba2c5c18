// What a new mode has to supply: this one decides like any other, and records its routes instead of programming them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import type { IpFamily } from '../../../src/address.js'
import { resolveConfig } from '../../../src/config/index.js'
import {
  applyEvents,
  Backlog,
  type FamilyHealth,
  type Mode,
  openTracker,
  type Pipeline,
  Synchronizer,
} from '../../../src/engine/index.js'
import { openModelKernel } from '../../model/index.js'
import { StateReporter } from '../../../src/log.js'
import { openMetrics } from '../../../src/metrics/index.js'
import type { Tracker } from '../../../src/model/index.js'
import { NodeTracker } from '../../../src/node/index.js'
import { type Route, route } from '../../../src/routing/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { ManualClock, settle } from '../../support/manual-clock.js'
import { remove, service, set, slice } from '../../support/objects.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const syncPeriodMs = 30_000

/** What the stub needs of its surroundings: nothing of the kernel. */
function openSurroundings() {
  return {
    clock: new ManualClock(),
    node: new NodeTracker('here'),
    metrics: openMetrics(new Registry()),
    config: resolveConfig({ manifests: 'none' }),
    problems: new StateReporter({
      log: new MemoryLog(),
      level: 'error',
      trouble: 'not programmed',
      recovery: 'programmed again',
      count: () => {},
    }),
  }
}

type Surroundings = ReturnType<typeof openSurroundings>

class RecordingPipeline implements Pipeline {
  readonly #surroundings: Surroundings
  readonly #records: string[]
  readonly #tracker: Tracker
  readonly #backlog: Backlog
  isInForce = false
  isClosed = false
  #isListed = false

  constructor(family: IpFamily, surroundings: Surroundings, records: string[]) {
    const { clock, metrics } = surroundings
    this.#surroundings = surroundings
    this.#records = records
    this.#tracker = openTracker({ family, ...surroundings })
    this.#backlog = new Backlog({ family, clock, syncPeriodMs, metrics: metrics[family] })
  }

  apply(events: readonly ObjectEvent[]): boolean {
    const changes = applyEvents(this.#tracker, events)
    this.#isListed ||= events.some(({ type }) => type === 'synced')
    if (this.#isListed) this.#backlog.note(changes)
    return this.#isListed
  }

  applyNode(): boolean {
    return false
  }

  applyLinks(): boolean {
    return false
  }

  stopSoon(): void {}

  async runOnce(): Promise<number | undefined> {
    if (!this.#isListed) return undefined
    this.#backlog.begin()
    for (const key of this.#tracker.take()) {
      const port = this.#tracker.servicePort(key)
      if (port === undefined) this.#records.push(`remove ${key}`)
      else {
        const decided = route(port, this.#tracker.endpoints(port), this.#surroundings.node.facts)
        const backends = decided.clusterBackends.map(({ address }) => address)
        this.#records.push(`route ${decided.service} to ${backends.join(' ')}`)
      }
    }
    this.#backlog.settle()
    this.isInForce = true
    return undefined
  }

  get health(): FamilyHealth {
    return this.#backlog.health
  }

  describe(decided: Route): readonly string[] {
    return [`route ${decided.service}`]
  }

  async close(): Promise<void> {
    this.isClosed = true
  }
}

describe('a mode of 70 lines that only records', () => {
  it('gets what every mode gets from the engine: events, runs, health, its end', async () => {
    const surroundings = openSurroundings()
    const records: string[] = []
    const pipelines: RecordingPipeline[] = []
    const mode: Mode = {
      name: 'iptables',
      families: ['ipv4'],
      syncPeriodMs,
      minSyncPeriodMs: 0,
      restFactor: 0,
      openPipeline: (family) => {
        const pipeline = new RecordingPipeline(family, surroundings, records)
        pipelines.push(pipeline)
        return pipeline
      },
    }
    const calls: string[] = []
    const synchronizer = new Synchronizer({
      ...surroundings,
      mode,
      links: openModelKernel().links,
      leaveOthers: async () => calls.push('leave others') > 0,
      onInForce: () => calls.push('in force'),
      onCrash: (error) => assert.fail(String(error)),
    })
    synchronizer.start()
    synchronizer.deliver([set(service('web', '10.96.0.1')), set(slice('web-a', 'web', ['10.244.1.1']))])
    await settle()
    assert.deepEqual([records, calls], [[], []], 'nothing before everything was listed')
    synchronizer.deliver([{ type: 'synced' }])
    await settle()
    assert.deepEqual(records, ['route default/web to 10.244.1.1'])
    assert.deepEqual(calls, ['in force', 'leave others'])
    synchronizer.deliver([remove('Service', 'web')])
    await settle()
    assert.equal(records.length, 2)
    assert.match(records[1] ?? '', /^remove default\/web/)
    assert.ok(synchronizer.health.every(({ isHealthy }) => isHealthy))
    await synchronizer.stop()
    assert.ok(pipelines.every(({ isClosed }) => isClosed))
  })
})
