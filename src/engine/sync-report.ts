import type { IpFamily } from '../address.js'
import type { BatchOutcome, IpvsOp, RouteOp } from '../kernel/index.js'
import type { Log } from '../log.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { Clock } from '../clock.js'
import { type CountedOps, OperationCounts } from './operation-counts.js'

type Op = (IpvsOp | RouteOp)['op']

/** Of the family; names are those of kube-proxy's lines. */
export interface WorldSize {
  /** Service ports. */
  readonly numServices: number
  readonly numEndpoints: number
}

/** What one pass did: a log line, and metrics. */
export class SyncReport {
  readonly #family: IpFamily
  readonly #startMs: number
  readonly #oldestEventMs: number | undefined
  readonly #counts = new OperationCounts<Op>()
  isReconcile = false
  /** The kernel could not be read, or a batch could not be sent: nothing is known to be in force. */
  isFailed = false

  constructor(
    family: IpFamily,
    times: { readonly startMs: number; readonly oldestEventMs: number | undefined },
  ) {
    this.#family = family
    this.#startMs = times.startMs
    this.#oldestEventMs = times.oldestEventMs
  }

  count(ops: CountedOps<Op>, outcome: BatchOutcome): void {
    this.#counts.add(ops, outcome)
  }

  finish(
    world: WorldSize,
    { clock, log, metrics }: { readonly clock: Clock; readonly log: Log; readonly metrics: FamilyMetrics },
  ): void {
    const nowMs = clock.now()
    metrics.syncDurationSeconds.observe((nowMs - this.#startMs) / 1000)
    if (this.#oldestEventMs !== undefined && !this.isFailed)
      metrics.eventToKernelSeconds.observe((nowMs - this.#oldestEventMs) / 1000)
    const failed = this.#counts.report(metrics)
    if (failed === 0 && !this.isFailed) metrics.lastSyncTimestampSeconds.set(clock.unixMs() / 1000)
    if (!log.writes('debug')) return
    log.debug('Sync done', {
      ipFamily: logFamily(this.#family),
      elapsed: `${(nowMs - this.#startMs).toFixed(1)}ms`,
      reconcile: this.isReconcile,
      complete: !this.isFailed,
      failed,
      ...world,
      operations: this.#counts.applied,
    })
  }
}

export function worldSize(tracker: {
  readonly servicePortCount: number
  readonly endpointCount: number
}): WorldSize {
  return { numServices: tracker.servicePortCount, numEndpoints: tracker.endpointCount }
}

/** `sizes`: of the ledger, by kind of object. */
export function reportSizes(metrics: FamilyMetrics, sizes: Readonly<Record<string, number>>): void {
  for (const [kind, size] of Object.entries(sizes)) metrics.ledgerObjects(kind).set(size)
}

/** As kube-proxy writes it. */
export function logFamily(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 'ipv4' ? 'IPv4' : 'IPv6'
}
