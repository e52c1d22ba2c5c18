// An example of a new mode: it gets routes like any other mode, and records them instead of programming the kernel.
import { Registry } from 'prom-client'
import type { IpFamily } from '../../src/address.js'
import { resolveConfig } from '../../src/config/index.js'
import {
  Intake,
  type FamilyHealth,
  KernelObject,
  ObjectTable,
  openProblems,
  type OperationKind,
  Pass,
  PassHistory,
  type PassRecord,
  type Pipeline,
} from '../../src/engine/index.js'
import type { ServiceView } from '../../src/model/index.js'
import { openMetrics } from '../../src/metrics/index.js'
import { NodeTracker } from '../../src/node/index.js'
import { type Route, route } from '../../src/routing/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { ManualClock } from './manual-clock.js'
import { MemoryLog } from './pipeline-lab.js'

export const syncPeriodMs = 30_000

/** The dependencies of the mode. It needs no kernel. */
export function openSurroundings() {
  const log = new MemoryLog()
  return {
    clock: new ManualClock(),
    node: new NodeTracker('here'),
    metrics: openMetrics(new Registry()),
    config: resolveConfig({ manifests: 'none' }),
    log,
    problems: openProblems({ log }),
  }
}

type Surroundings = ReturnType<typeof openSurroundings>

const recording: OperationKind<{ readonly op: string; readonly text: string }> = {
  name: 'records',
  describe: ({ text }) => text,
  isMetered: false,
}

/** A route as text, in place of a kernel object. */
class RecordedRoute extends KernelObject<string, string | undefined> {
  desired: string | undefined

  get isAcknowledged(): boolean {
    return this.acknowledged !== undefined
  }

  get isUnused(): boolean {
    return this.desired === undefined && !this.isAcknowledged
  }
}

export class RecordingPipeline implements Pipeline {
  readonly #surroundings: Surroundings
  readonly #records: string[]
  readonly #intake: Intake
  readonly #table = new ObjectTable<string, RecordedRoute>()
  readonly #history = new PassHistory()
  isInForce = false
  hasRefusals = false
  isClosed = false

  constructor(family: IpFamily, surroundings: Surroundings, records: string[]) {
    const { clock, metrics } = surroundings
    this.#surroundings = surroundings
    this.#records = records
    this.#intake = new Intake({ ...surroundings, family, clock, syncPeriodMs, metrics: metrics[family] })
  }

  get knowsObjects(): boolean {
    return this.#intake.known !== 'nothing'
  }

  get isWatchable(): boolean {
    return this.isInForce
  }

  apply(events: readonly ObjectEvent[]): boolean {
    return this.#intake.apply(events, () => true)
  }

  applyNode(): boolean {
    return false
  }

  applyLinks(): boolean {
    return false
  }

  stopSoon(): void {}

  async runOnce(): Promise<number | undefined> {
    if (this.#intake.known === 'nothing') return undefined
    const { clock, log, metrics, node } = this.#surroundings
    const events = this.#intake.beginRun()
    const pass = new Pass({ family: 'ipv4', clock, log, metrics: metrics.ipv4, events })
    for (const key of await pass.takeDirty(this.#intake)) {
      const port = this.#intake.tracker.servicePort(key)
      const object = this.#table.get(key) ?? this.#table.add(new RecordedRoute(key, undefined))
      const decided = port && route(port, this.#intake.tracker.endpoints(port), node.facts)
      object.desired = decided?.clusterBackends.map(({ address }) => address).join(' ')
      this.#table.markDirty(object)
    }
    for (const object of this.#table.takeDirty()) {
      const op = { op: 'record', text: `${object.id} to ${object.desired}` }
      this.#records.push(op.text)
      pass.count(recording, [op], { applied: 1, failures: [] })
      object.acknowledged = object.desired
      this.#table.settle(object)
    }
    this.#history.add(pass.end({ hasRefusals: false, fields: {} }))
    this.#intake.backlog.settle()
    this.isInForce = true
    return undefined
  }

  get services(): ServiceView {
    return this.#intake.tracker
  }

  inForceSince(): undefined {
    return undefined
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  get health(): FamilyHealth {
    return this.#intake.backlog.health
  }

  describe({ service }: Route): readonly string[] {
    return [`route ${service}`]
  }

  packetRules(): undefined {}

  async differences(): Promise<undefined> {}

  async close(): Promise<void> {
    this.isClosed = true
  }
}
