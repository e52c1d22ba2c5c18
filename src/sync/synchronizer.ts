import { type Cidr, type IpAddress, type IpFamily, cidrContains } from '../address.js'
import type { VipBinding } from '../config/index.js'
import type { LinkEvent, LinkWatch } from '../kernel/index.js'
import { dummyDeviceName } from '../ledger/index.js'
import { type Log, StateReporter } from '../log.js'
import type { Metrics } from '../metrics.js'
import type { IpvsModeSettings } from '../modes/ipvs/index.js'
import type { NodeTracker } from '../node/index.js'
import type { ObjectEvent } from '../source/index.js'
import { BoundedRunner } from './bounded-runner.js'
import type { Clock } from './clock.js'
import { FamilyPipeline } from './family-pipeline.js'
import type { KernelDoors } from './prepare-kernel.js'

export interface SynchronizerOptions {
  readonly mode: IpvsModeSettings
  readonly vipBinding: VipBinding
  readonly syncPeriodMs: number
  readonly minSyncPeriodMs: number
  readonly excludeCidrs: readonly Cidr[]
  readonly kernel: KernelDoors
  readonly node: NodeTracker
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, 'ipv4' | 'ipv6' | 'serviceChanges' | 'endpointChanges'>
  readonly problems: StateReporter
  /** Something broke that is no refusal of the kernel. */
  readonly onCrash: (error: unknown) => void
}

interface FamilyRun {
  readonly pipeline: FamilyPipeline
  readonly runner: BoundedRunner
}

/** The pipelines of both families, each with its runner, fed by one stream of events and one watch of the links. */
export class Synchronizer {
  readonly #options: SynchronizerOptions
  readonly #families: readonly FamilyRun[]
  readonly #hints: StateReporter
  #watch: LinkWatch | undefined
  #watching: Promise<void> = Promise.resolve()

  constructor(options: SynchronizerOptions) {
    this.#options = options
    this.#hints = new StateReporter({
      log: options.log,
      level: 'warn',
      trouble: 'VIP binding',
      recovery: 'VIP binding: in order again',
      count: () => {},
    })
    this.#families = (['ipv4', 'ipv6'] as const).map((family) => this.#open(family))
  }

  /** Events that were seen together; the runs that they need start in the same turn. */
  deliver(events: readonly ObjectEvent[]): void {
    const changes = events.map((event) => this.#options.node.apply(event))
    this.#count(events)
    const isRoutingChanged = changes.some(({ routing }) => routing)
    const isBindingChanged = changes.some(({ vipBinding }) => vipBinding)
    for (const { pipeline, runner } of this.#families) {
      if (isRoutingChanged) pipeline.markAll()
      if (isBindingChanged) pipeline.requestReconcile()
      if (pipeline.apply(events) || isBindingChanged) runner.request()
    }
  }

  #count(events: readonly ObjectEvent[]): void {
    const { serviceChanges, endpointChanges } = this.#options.metrics
    for (const event of events) {
      const kind = event.type === 'set' ? event.object.kind : event.type === 'delete' ? event.kind : undefined
      if (kind === 'Service') serviceChanges.inc()
      else if (kind === 'EndpointSlice') endpointChanges.inc()
    }
  }

  /** Idempotent. */
  start(): void {
    if (this.#watch !== undefined) return
    for (const { runner } of this.#families) runner.start()
    const watch = this.#options.kernel.links.watch()
    this.#watch = watch
    this.#watching = this.#follow(watch).catch(this.#options.onCrash)
  }

  /** Ends runs in progress at their next batch; nothing runs after it resolves. Idempotent. */
  async stop(): Promise<void> {
    for (const { pipeline } of this.#families) pipeline.stopSoon()
    await Promise.all([this.#watch?.close(), ...this.#families.map(({ runner }) => runner.stop())])
    await this.#watching
  }

  #open(family: IpFamily): FamilyRun {
    const { metrics, excludeCidrs, clock, minSyncPeriodMs, syncPeriodMs, onCrash } = this.#options
    const isExcluded = (address: IpAddress): boolean =>
      excludeCidrs.some((cidr) => cidrContains(cidr, address))
    const hints = this.#hints
    const pipeline = new FamilyPipeline({
      ...this.#options,
      hints,
      family,
      isExcluded,
      metrics: metrics[family],
    })
    const run = async (): Promise<number | undefined> => await pipeline.runOnce()
    const runner = new BoundedRunner({
      run,
      clock,
      onCrash,
      minIntervalMs: minSyncPeriodMs,
      maxIntervalMs: syncPeriodMs,
    })
    return { pipeline, runner }
  }

  /** Somebody deletes our device, takes lo down, or an address that our VIPs need: repaired now, not at the next period. */
  async #follow(watch: LinkWatch): Promise<void> {
    for (let events = await watch.next(); events !== undefined; events = await watch.next()) {
      for (const { pipeline, runner } of this.#families) {
        if (!events.some((event) => concernsUs(event, pipeline))) continue
        pipeline.requestReconcile()
        runner.request()
      }
    }
  }
}

function concernsUs(event: LinkEvent, pipeline: FamilyPipeline): boolean {
  if (event.kind === 'overrun') return true
  // The kernel takes all routes from lo when it goes down, and tells only about the link.
  if (event.kind === 'link')
    return event.name === 'lo' || (event.change === 'remove' && event.name === dummyDeviceName)
  return pipeline.concerns(event)
}
