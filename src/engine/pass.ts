import type { IpFamily } from '../address.js'
import type { Clock } from '../clock.js'
import type { KernelError } from '../errors.js'
import type { BatchOutcome } from '../kernel/index.js'
import type { Log } from '../log.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { ServicePortKey, Share } from '../model/index.js'
import type { RunEvents } from './backlog.js'
import type { InForceTimes } from './in-force-times.js'
import type { FamilyIntake } from './family-intake.js'
import { type FirstNames, NameList, namedInRecord } from './name-list.js'
import { type CountedOps, type OperationCount, OperationCounts } from './operation-counts.js'
import { type PassStages, StageTimes } from './stage-times.js'
import { logFamily } from './sync-report.js'

/**
 * Why a pass ran. `start`: not everything was in the kernel yet. `reconcile`: the kernel was compared with the desired state. `retry`:
 * something that failed was due. `change`: an event changed the desired state.
 */
export type PassReason = 'start' | 'reconcile' | 'retry' | 'change'

/** Operations of one subsystem, and how messages name their objects. */
export interface OperationKind<Op> {
  /** `ipvs`, `ipset`, `nat`. */
  readonly name: string
  readonly describe: (op: Op) => string
  /** Whether the metric viaduct_operations_total counts them. */
  readonly isMetered: boolean
  /** `describe` takes long: a small batch is kept, and described when a reader asks. */
  readonly isDescribedLate?: boolean
}

/** A kind of any operation. */
export type AnyKind = Pick<OperationKind<never>, 'name' | 'isMetered'>

/** A pass that has ended. */
export interface PassRecord {
  readonly family: IpFamily
  readonly reason: PassReason
  /** Unix seconds. */
  readonly startSeconds: number
  readonly durationMs: number
  readonly stages: PassStages
  /** The objects whose events the pass is for, such as `EndpointSlice default/web-x7k2`. */
  readonly objects: FirstNames
  /** The service ports that events, retries or new settings changed. */
  readonly changed: FirstNames<ServicePortKey>
  /** Everything that the pass was for is in the kernel, except objects that the kernel refuses. */
  readonly isComplete: boolean
  /** Counts by kind, then by operation. The number of planned operations is the sum of the three counts. */
  readonly operations: Readonly<Record<string, Readonly<Record<string, OperationCount>>>>
  /** The first operations that were sent, a line each: `ipvs add-virtual-server tcp 10.96.0.1:80`. */
  readonly firstOperations: () => readonly string[]
  /** The first failures, a sentence each: refused operations, lost answers, and questions that the kernel refused. */
  readonly failures: readonly string[]
}

interface PassOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** The events that the pass is for. Absent: it is for none. */
  readonly events?: RunEvents
  /** Measures the stages of the family's passes, one after the other. Absent: nothing else counts for it. */
  readonly stages?: StageTimes
  /** Learns which service ports the pass changed, and when they are in force. Absent: they are not recorded. */
  readonly inForce?: InForceTimes
}

/** Greatest number of failures in a record. */
const namedFailures = 8

/** Greatest number of operations that a pass keeps as text at trace level. */
const printedOperations = 1000

/**
 * One pass of one family: plan, apply, report. It gets every batch with the kernel's answer, and ends as metrics, a log line and a
 * record. It keeps the first operations as text; at trace level, many.
 */
export class Pass {
  readonly #options: PassOptions
  readonly #startMs: number
  readonly #startSeconds: number
  readonly #counts = new Map<AnyKind, OperationCounts>()
  readonly #failures: string[] = []
  /** The first operations, a line each. */
  readonly #text: (() => readonly string[])[] = []
  #textLength = 0
  readonly #mostText: number
  /** For what else belongs to a stage. */
  readonly stages: StageTimes
  readonly #changed = new NameList<ServicePortKey>()
  #events: RunEvents
  /** A part of the pass could not be read, planned or sent. */
  isFailed = false
  /** The pipeline sets it as soon as it knows. */
  reason: PassReason = 'change'

  constructor(options: PassOptions) {
    const { clock, log } = options
    this.#options = options
    this.#events = options.events ?? { oldestEventMs: undefined, objects: { count: 0, first: [] } }
    this.#startMs = clock.now()
    this.#startSeconds = clock.unixMs() / 1000
    this.#mostText = log.writes('trace') ? printedOperations : namedInRecord
    this.stages = options.stages ?? new StageTimes(clock)
    this.stages.begin(this.#startMs)
  }

  /**
   * Takes the changed service ports, and records them with their events. Called before the first of them is claimed: from then on what
   * the agent knows of them is not what the kernel has. `share`: as for `FamilyIntake.takeDirty`.
   */
  async takeDirty(
    intake: Pick<FamilyIntake, 'takeDirty'>,
    share?: Share,
  ): Promise<ReadonlySet<ServicePortKey>> {
    const { dirty, events } = await intake.takeDirty(share)
    if (events !== undefined) this.#events = events
    return this.noteDirty(dirty)
  }

  /** Records service ports that the pass claims although no event names them. Returns them. */
  noteDirty(dirty: ReadonlySet<ServicePortKey>): ReadonlySet<ServicePortKey> {
    if (dirty.size > 0) {
      this.#options.inForce?.change(dirty)
      this.#changed.addAll({ count: dirty.size, first: [...dirty].slice(0, namedInRecord) })
    }
    return dirty
  }

  /** Counts operations that were sent, by the kernel's answer. */
  count<Op extends { readonly op: string }>(
    kind: OperationKind<Op>,
    ops: CountedOps<Op>,
    outcome: BatchOutcome,
  ): void {
    let counts = this.#counts.get(kind)
    if (counts === undefined) this.#counts.set(kind, (counts = new OperationCounts()))
    counts.add(ops, outcome)
    for (const { error, unknown } of outcome.failures.slice(0, namedFailures))
      this.note(unknown ? `no answer: ${error.message}` : error.message)
    this.print(kind, ops)
  }

  /** Keeps the first operations as text. `count` does it too. */
  print<Op extends { readonly op: string }>(kind: OperationKind<Op>, ops: CountedOps<Op>): void {
    this.printLater(kind, ops)()
  }

  /** Reads the first operations; the result keeps them as text. For operations that are perhaps not sent, and whose memory is needed before. */
  printLater<Op extends { readonly op: string }>(kind: OperationKind<Op>, ops: CountedOps<Op>): () => void {
    const count = Math.min(ops.length, this.#mostText - this.#textLength)
    if (count <= 0) return () => {}
    if (kind.isDescribedLate === true && ops.length <= namedInRecord) {
      let lines: readonly string[] | undefined
      return () => this.#keepText(count, () => (lines ??= linesOf(kind, ops, count)))
    }
    const lines = linesOf(kind, ops, count)
    return () => this.#keepText(lines.length, () => lines)
  }

  #keepText(length: number, text: () => readonly string[]): void {
    this.#textLength += length
    this.#text.push(text)
  }

  /** Records a failure of one object. */
  note(failure: string): void {
    if (this.#failures.length < namedFailures) this.#failures.push(failure)
  }

  /** Records that the kernel could not be read, or did not take a whole batch or table. */
  fail(error?: KernelError): void {
    this.isFailed = true
    if (error !== undefined) this.note(error.message)
  }

  /** The first operations, a line each: `ipvs add-virtual-server tcp 10.96.0.1:80`. */
  get text(): readonly string[] {
    return this.#text.flatMap((lines) => lines())
  }

  /** The text for the record, which keeps no more than that. */
  #firstText(): () => readonly string[] {
    if (this.#textLength > namedInRecord) {
      const first = this.text.slice(0, namedInRecord)
      return () => first
    }
    const parts = this.#text
    return () => parts.flatMap((lines) => lines())
  }

  /** Operations of these kinds, for the log line: how many the kernel did not take, and those that it took by name. */
  #logged(kinds: readonly AnyKind[]): Readonly<Record<string, unknown>> {
    const counts = kinds.flatMap((kind) => this.#counts.get(kind) ?? [])
    const failed = counts.reduce((sum, count) => sum + count.failed, 0)
    const all = counts.flatMap((count) => Object.entries(count.all))
    return { failed, operations: Object.fromEntries(all.map(([op, { applied }]) => [op, applied])) }
  }

  /**
   * Ends the pass: metrics, a log line with these fields, and the record. `hasRefusals`: the time of the last sync stays as it is.
   * `sizes`: numbers of objects of the layer, by kind. `logged`: kinds of operations that the log line counts. `oldestInForceMs`: the time
   * of the oldest event that is in force now completely; undefined: there is none. Absent: that of the oldest event of the pass.
   */
  end({
    hasRefusals,
    oldestInForceMs = () => this.#events.oldestEventMs,
    sizes = {},
    fields,
    logged,
  }: {
    readonly hasRefusals: boolean
    readonly oldestInForceMs?: () => number | undefined
    readonly sizes?: Readonly<Record<string, number>>
    readonly fields: Readonly<Record<string, unknown>>
    readonly logged?: readonly AnyKind[] | undefined
  }): PassRecord {
    const { family, clock, log, metrics, inForce } = this.#options
    const { oldestEventMs, objects } = this.#events
    const { reason } = this
    const nowMs = clock.now()
    const durationMs = nowMs - this.#startMs
    const waiting =
      oldestEventMs === undefined ? {} : { waitingMs: Math.max(0, this.#startMs - oldestEventMs) }
    const stages = { ...waiting, ...this.stages.timesAt(nowMs) }
    const isComplete = !this.isFailed
    metrics.syncDurationSeconds.observe(durationMs / 1000)
    const inForceMs = isComplete ? oldestInForceMs() : undefined
    if (inForceMs !== undefined) metrics.eventToKernelSeconds.observe((nowMs - inForceMs) / 1000)
    for (const [{ isMetered }, counts] of this.#counts) if (isMetered) counts.report(metrics)
    for (const [kind, size] of Object.entries(sizes)) metrics.ledgerObjects(kind).set(size)
    if (isComplete && !hasRefusals) {
      const unixMs = clock.unixMs()
      metrics.lastSyncTimestampSeconds.set(unixMs / 1000)
      inForce?.settle(unixMs)
    }
    if (log.writes('debug')) {
      const ipFamily = logFamily(family)
      if (log.writes('trace'))
        for (const operation of this.text) log.trace('Operation', { ipFamily, operation })
      const elapsed = `${durationMs.toFixed(1)}ms`
      const operations = logged && this.#logged(logged)
      log.debug('Sync done', { ipFamily, elapsed, reason, complete: isComplete, ...fields, ...operations })
    }
    const operations = Object.fromEntries([...this.#counts].map(([{ name }, counts]) => [name, counts.all]))
    const startSeconds = this.#startSeconds
    return {
      family,
      reason,
      startSeconds,
      durationMs,
      stages,
      objects,
      changed: this.#changed.names,
      isComplete,
      operations,
      firstOperations: this.#firstText(),
      failures: this.#failures,
    }
  }
}

/** The first `count` operations. Empty if the batch does not keep them. */
function linesOf<Op extends { readonly op: string }>(
  kind: OperationKind<Op>,
  ops: CountedOps<Op>,
  count: number,
): readonly string[] {
  const lines: string[] = []
  for (let index = 0; index < count; index++) {
    const op = ops.at(index)
    if (op === undefined) break
    lines.push(`${kind.name} ${op.op} ${kind.describe(op)}`)
  }
  return lines
}

/** Number of passes that the history of a family keeps: a page, and at most some 300 KB. */
const keptPasses = 64

/** The last passes of one family. */
export class PassHistory {
  readonly #records: PassRecord[] = []

  add(record: PassRecord): void {
    this.#records.push(record)
    if (this.#records.length > keptPasses) this.#records.shift()
  }

  /** Oldest first. */
  get records(): readonly PassRecord[] {
    return [...this.#records]
  }
}

/** Whether a sync is a full one. A full sync that fails stays due: the next syncs are full, until one is written. */
export class FullSync {
  #isDue = false

  /** True: the sync that begins now is a full one. `isRequested`: it has a reason of its own. */
  begin(isRequested: boolean): boolean {
    this.#isDue ||= isRequested
    return this.#isDue
  }

  /** The sync is in the kernel. */
  noteWritten(): void {
    this.#isDue = false
  }
}
