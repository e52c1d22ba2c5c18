// An intake with open families, without a loop: a test makes the runs.
import { Registry } from 'prom-client'
import type { IpFamily } from '../../src/address.js'
import { resolveConfig } from '../../src/config/index.js'
import { Intake, type KnownObjects, openProblems } from '../../src/engine/index.js'
import type { FamilyIntake } from '../../src/engine/testing.js'
import { type FamilyMetrics, openMetrics } from '../../src/metrics/index.js'
import { NodeTracker } from '../../src/node/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { ManualClock } from './manual-clock.js'
import { openGate } from './open-gate.js'
import { MemoryLog } from './pipeline-lab.js'

export interface IntakeLabOptions {
  readonly clock?: ManualClock
  readonly families?: readonly IpFamily[]
  /** Gets the latencies of changes, in seconds. */
  readonly latency?: FamilyMetrics['networkProgrammingSeconds']
}

export class IntakeLab {
  readonly log = new MemoryLog()
  readonly intake: Intake
  readonly families: readonly FamilyIntake[]
  /** The families that need a run since it was last made. */
  readonly requested = new Set<IpFamily>()
  /** Numbers of present problems, at each change. */
  readonly problemCounts: number[] = []
  /** Whether a family needs a run for another reason than its objects. */
  isUnsettled: (known: KnownObjects) => boolean = () => false

  constructor({ clock = new ManualClock(), families = ['ipv4'], latency }: IntakeLabOptions = {}) {
    const metrics = openMetrics(new Registry())
    const problems = openProblems({ log: this.log, count: (count) => this.problemCounts.push(count) })
    const config = resolveConfig({ manifests: 'none' })
    this.intake = new Intake({ config, node: openGate(new NodeTracker('here')), metrics })
    this.families = families.map((family) => {
      const { lastQueuedTimestampSeconds, networkProgrammingSeconds } = metrics[family]
      const own = {
        lastQueuedTimestampSeconds,
        networkProgrammingSeconds: latency ?? networkProgrammingSeconds,
      }
      return this.intake.openFamily({
        family,
        clock,
        log: this.log,
        syncPeriodMs: 1000,
        metrics: own,
        problems,
      })
    })
  }

  /** The mode is open. */
  open(): this {
    this.intake.open(() => {
      for (const family of this.families)
        if (family.needsRun((known) => this.isUnsettled(known))) this.requested.add(family.family)
    })
    return this
  }

  /** Delivers events together. */
  deliver(...events: readonly ObjectEvent[]): void {
    this.intake.deliver(events)
  }
}
