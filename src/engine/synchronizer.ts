import type { IpFamily } from '../address.js'
import type { LinkWatch, Links } from '../kernel/index.js'
import type { Metrics, PacketTotals } from '../metrics/index.js'
import { noNodeChange } from '../node/index.js'
import type { Clock } from '../clock.js'
import type { FamilyHealth } from './backlog.js'
import { BoundedRunner, type RunTerms } from './bounded-runner.js'
import type { Delivery, Intake } from './intake.js'
import type { Mode, ModeWatch } from './mode.js'
import type { PassRecord } from './pass.js'
import type { Pipeline, PipelineView } from './pipeline.js'

interface SynchronizerOptions {
  readonly mode: Mode
  /** Gets the events of the source. The pipelines of the mode take them from it. */
  readonly intake: Pick<Intake, 'open' | 'openFamily'>
  /**
   * Removes the objects that the other modes left, and looks at other programs' rules. Called when everything is in the kernel, and again
   * every sync period. Never throws KernelError.
   */
  readonly housekeeping: () => Promise<void>
  /**
   * Removes what would keep packets from the rules of this mode. Called before a run that may write, until it resolves with true. Never throws
   * KernelError.
   */
  readonly prepareNode: () => Promise<boolean>
  /** Called once, when everything is in the kernel for the first time. */
  readonly onInForce: () => void
  readonly links: Pick<Links, 'watch'>
  /** The mode does not watch the kernel between runs, as in a plan, which is made at one moment. Default false. */
  readonly isUnwatched?: boolean | undefined
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'serviceChangesPending' | 'endpointChangesPending'>
  /** Gets an error that is no refusal of the kernel. */
  readonly onCrash: (error: unknown) => void
}

/** Time until a run after a `prepareNode` that failed, while not everything is in the kernel. */
const prepareAgainMs = 1000

interface FamilyRun {
  readonly pipeline: Pipeline
  readonly runner: BoundedRunner
}

/**
 * Runs the pipelines of a mode, one per family, each with its own runner. Its guarantees:
 *
 * 1. Events of one delivery are in the same run ("gets what every mode gets from the engine: events, runs, health, its end",
 *    test/unit/engine/stub-mode.test.ts). The runs begin in the same turn (guarantee 2 of `BoundedRunner`).
 * 2. Between two syncs of a family lies the mode's minimum interval ("minSyncPeriod lies between the end of a sync and the next, but
 *    delays no first one", test/scenario/periods.test.ts). The runs of one sync, each with a share of its changes, follow each other at
 *    once (guarantee 10 of `BoundedRunner`).
 * 3. What other modes left is removed only when everything is in the kernel; `onInForce` is called once, at that time. `prepareNode` comes
 *    before the first run that may write, and not before the objects are known (test/unit/engine/stub-mode.test.ts).
 * 4. A stop ends the run in progress at its next batch, and nothing runs afterwards ("lets no other batch follow",
 *    test/scenario/stop.test.ts).
 */
export class Synchronizer {
  readonly #options: SynchronizerOptions
  readonly #families: readonly FamilyRun[]
  readonly #runEnds = new Set<() => void>()
  #isInForce = false
  /** Numbers of events that wait for a run, of either family. */
  #pending = { services: 0, slices: 0 }
  /** Earliest time of the next `housekeeping`; Infinity: one is in progress. */
  #housekeepingDueMs = -Infinity
  #housekeeping: Promise<void> = Promise.resolve()
  #isPrepared = false
  #preparing: Promise<boolean> | undefined
  #watch: LinkWatch | undefined
  #watching: Promise<void> = Promise.resolve()
  #isWatched = false
  #modeWatch: ModeWatch | undefined
  #modeWatching: Promise<void> = Promise.resolve()

  constructor(options: SynchronizerOptions) {
    this.#options = options
    this.#families = options.mode.families.map((family) => this.#open(family))
  }

  /** Health of each family that is programmed, IPv4 first. */
  get health(): readonly FamilyHealth[] {
    return this.#families.map(({ pipeline }) => pipeline.health)
  }

  /** The pipelines of the families that are programmed, IPv4 first. */
  get views(): readonly PipelineView[] {
    return this.#families.map(({ pipeline }) => pipeline)
  }

  /** The last passes of all families, oldest first. */
  get passes(): readonly PassRecord[] {
    const records = this.#families.flatMap(({ pipeline }) => pipeline.passes)
    return records.toSorted((a, b) => a.startSeconds - b.startSeconds)
  }

  /** Calls `look` at the end of each run of a family, whether it made a pass or not, until the returned function is called. */
  onRunEnd(look: () => void): () => void {
    this.#runEnds.add(look)
    return () => void this.#runEnds.delete(look)
  }

  /** Packets of all families together; undefined: the mode has no such rules. */
  async countPackets(): Promise<PacketTotals | undefined> {
    const counts = this.#families.map(async ({ pipeline }) => await pipeline.countPackets?.())
    let total: PacketTotals | undefined
    for (const count of await Promise.all(counts)) {
      if (count === undefined) continue
      total = {
        invalidDropped: (total?.invalidDropped ?? 0) + count.invalidDropped,
        localhostAccepted: (total?.localhostAccepted ?? 0) + count.localhostAccepted,
      }
    }
    return total
  }

  /** Requests the runs that a delivery needs. */
  #takeIn({ nodeChange, counts: { services, slices } }: Delivery): void {
    let isWork = false
    for (const { pipeline, runner } of this.#families) {
      const isNodeConcerned = nodeChange !== noNodeChange && pipeline.applyNode(nodeChange)
      if (!pipeline.needsRun() && !isNodeConcerned) continue
      isWork = true
      runner.request()
    }
    if (isWork) this.#setPending(this.#pending.services + services, this.#pending.slices + slices)
  }

  /** Sets one value for both families, as kube-proxy does: an event does not wait once a run of either family begins with it. */
  #setPending(services: number, slices: number): void {
    this.#pending = { services, slices }
    this.#options.metrics.serviceChangesPending.set(services)
    this.#options.metrics.endpointChangesPending.set(slices)
  }

  /** Takes in events from now on. Idempotent. */
  start(): void {
    if (this.#watch !== undefined) return
    for (const { runner } of this.#families) runner.start()
    const watch = this.#options.links.watch()
    this.#watch = watch
    this.#watching = this.#follow(watch).catch(this.#options.onCrash)
    this.#options.intake.open((delivery) => this.#takeIn(delivery))
  }

  /** Ends runs in progress at their next batch; nothing runs after it resolves. Idempotent. */
  async stop(): Promise<void> {
    for (const { pipeline } of this.#families) pipeline.stopSoon()
    await Promise.all([this.#watch?.close(), ...this.#families.map(({ runner }) => runner.stop())])
    await this.#modeWatch?.close()
    await Promise.all([this.#watching, this.#modeWatching, this.#housekeeping])
    await Promise.all(this.#families.map(({ pipeline }) => pipeline.close()))
  }

  #open(family: IpFamily): FamilyRun {
    const { clock, intake, mode, onCrash } = this.#options
    const { minSyncPeriodMs, syncPeriodMs, restFactor } = mode
    const isHealthy = (): boolean => this.health.every((health) => health.isHealthy)
    const pipeline = mode.openPipeline(family, { intake, isHealthy })
    const runner = new BoundedRunner({
      run: async (terms) => await this.#run(pipeline, terms),
      mayRunInRest: () => pipeline.mayRunInRest,
      isUnfinished: () => pipeline.isUnfinished,
      clock,
      onCrash,
      minIntervalMs: minSyncPeriodMs,
      maxIntervalMs: syncPeriodMs,
      restFactor,
    })
    return { pipeline, runner }
  }

  async #run(pipeline: Pipeline, terms: RunTerms): Promise<number | undefined> {
    this.#setPending(0, 0)
    // Until the objects are known, what another mode left serves Services: it stays whole. Nothing may come between this look and the run.
    if (!this.#isPrepared && pipeline.knowsObjects) await this.#prepareNode()
    const againInMs = await pipeline.runOnce(terms)
    for (const look of this.#runEnds) look()
    if (!this.#isWatched && pipeline.isWatchable) {
      this.#isWatched = true
      this.#modeWatching = this.#followMode().catch(this.#options.onCrash)
    }
    if (!this.#isInForce && this.#families.every((family) => family.pipeline.isInForce)) {
      this.#isInForce = true
      this.#options.onInForce()
    }
    if (this.#isInForce && this.#options.clock.now() >= this.#housekeepingDueMs) {
      this.#housekeepingDueMs = Infinity
      // Runs do not wait for this removal, as it may wait for another program's lock, once for each table.
      this.#housekeeping = this.#runHousekeeping().catch(this.#options.onCrash)
    }
    const isPreparing = pipeline.knowsObjects && !this.#isPrepared && !this.#isInForce
    return isPreparing ? Math.min(againInMs ?? Infinity, prepareAgainMs) : againInMs
  }

  /** The families that run at the same time wait for one call. */
  async #prepareNode(): Promise<void> {
    const preparing = (this.#preparing ??= this.#options.prepareNode())
    const isPrepared = await preparing
    if (this.#preparing === preparing) this.#preparing = undefined
    this.#isPrepared ||= isPrepared
  }

  async #runHousekeeping(): Promise<void> {
    const { clock, mode, housekeeping } = this.#options
    await housekeeping()
    this.#housekeepingDueMs = clock.now() + mode.syncPeriodMs
  }

  async #followMode(): Promise<void> {
    const { mode, isUnwatched = false } = this.#options
    const watch = isUnwatched ? undefined : mode.openWatch?.()
    this.#modeWatch = watch
    if (watch === undefined) return
    do this.#requestLooks()
    while (await watch.next())
    // The watch has ended: pipelines look for themselves again.
    this.#requestLooks()
  }

  /** Requests a run of each pipeline whose first sync is over. The others schedule their own retries. */
  #requestLooks(): void {
    for (const { pipeline, runner } of this.#families) if (pipeline.isWatchable) runner.request()
  }

  async #follow(watch: LinkWatch): Promise<void> {
    for (let events = await watch.next(); events !== undefined; events = await watch.next()) {
      for (const { pipeline, runner } of this.#families) if (pipeline.applyLinks(events)) runner.request()
    }
  }
}
