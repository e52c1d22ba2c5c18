import type { IpFamily } from '../address.js'
import type { BatchOutcome, IpvsBatch, IpvsOp, RouteOp } from '../kernel/index.js'
import type { Log } from '../log.js'
import type { FamilyMetrics } from '../metrics.js'
import type { Clock } from './clock.js'

type Op = (IpvsOp | RouteOp)['op']

/** The operations of one batch. */
export type CountedOps = IpvsBatch | readonly { readonly op: Op }[]

interface Count {
  applied: number
  failed: number
}

/** What one pass did: a log line, and metrics. */
export class SyncReport {
  readonly #family: IpFamily
  readonly #startMs: number
  readonly #oldestEventMs: number | undefined
  readonly #counts = new Map<Op, Count>()
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

  count(ops: CountedOps, outcome: BatchOutcome): void {
    for (const [op, number] of countsOf(ops)) if (number > 0) this.#countOf(op).applied += number
    for (const { index } of outcome.failures) {
      const op = ops.at(index)?.op
      if (op === undefined) continue
      const count = this.#countOf(op)
      count.applied--
      count.failed++
    }
  }

  finish({
    clock,
    log,
    metrics,
  }: {
    readonly clock: Clock
    readonly log: Log
    readonly metrics: FamilyMetrics
  }): void {
    const nowMs = clock.now()
    metrics.syncDurationSeconds.observe((nowMs - this.#startMs) / 1000)
    if (this.#oldestEventMs !== undefined && !this.isFailed)
      metrics.eventToKernelSeconds.observe((nowMs - this.#oldestEventMs) / 1000)
    let failed = 0
    for (const [op, count] of this.#counts) {
      const bound = metrics.operation(op)
      bound.applied.inc(count.applied)
      bound.failed.inc(count.failed)
      failed += count.failed
    }
    if (failed === 0 && !this.isFailed) metrics.lastSyncTimestampSeconds.set(clock.unixSeconds())
    if (!log.writes('debug')) return
    log.debug('Sync done', {
      ipFamily: logFamily(this.#family),
      elapsed: `${(nowMs - this.#startMs).toFixed(1)}ms`,
      reconcile: this.isReconcile,
      complete: !this.isFailed,
      failed,
      operations: Object.fromEntries([...this.#counts].map(([op, { applied }]) => [op, applied])),
    })
  }

  #countOf(op: Op): Count {
    let count = this.#counts.get(op)
    if (count === undefined) {
      count = { applied: 0, failed: 0 }
      this.#counts.set(op, count)
    }
    return count
  }
}

function countsOf(ops: CountedOps): Iterable<readonly [Op, number]> {
  if ('counts' in ops) return ops.counts
  const counts = new Map<Op, number>()
  for (const { op } of ops) counts.set(op, (counts.get(op) ?? 0) + 1)
  return counts
}

/** As kube-proxy writes it. */
export function logFamily(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 'ipv4' ? 'IPv4' : 'IPv6'
}
