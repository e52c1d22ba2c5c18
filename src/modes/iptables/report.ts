import type { IpFamily } from '../../address.js'
import type { XtOutcome } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { IptablesTable } from './compile/desired.js'
import type { Clock } from '../../clock.js'
import { logFamily } from '../../engine/index.js'

export interface IptablesPass {
  readonly startMs: number
  /** When the first event came that the pass brought into the kernel; undefined: it was for no event. */
  readonly oldestEventMs: number | undefined
  /** Service ports that were compiled. */
  readonly routes: number
  /** It brought about, or compared, everything. */
  readonly isFull: boolean
  /** Of the world and of our rules, by the names of kube-proxy's lines. */
  readonly sizes: Readonly<Record<string, number>>
  /** By table; undefined: not everything is in force. */
  readonly written: Partial<Record<IptablesTable, XtOutcome>> | undefined
}

/** Tells what one pass that wrote, or wanted to, did: metrics and a log line. */
export function reportPass(
  family: IpFamily,
  { startMs, oldestEventMs, routes, isFull, written, sizes }: IptablesPass,
  { clock, log, metrics }: { readonly clock: Clock; readonly log: Log; readonly metrics: FamilyMetrics },
): void {
  const nowMs = clock.now()
  const seconds = (nowMs - startMs) / 1000
  metrics.syncDurationSeconds.observe(seconds)
  if (isFull) metrics.fullSyncDurationSeconds.observe(seconds)
  else metrics.partialSyncDurationSeconds.observe(seconds)
  if (written === undefined && !isFull) metrics.iptablesPartialRestoreFailures.inc()
  if (written !== undefined) {
    metrics.lastSyncTimestampSeconds.set(clock.unixMs() / 1000)
    if (oldestEventMs !== undefined) metrics.eventToKernelSeconds.observe((nowMs - oldestEventMs) / 1000)
  }
  if (!log.writes('debug')) return
  log.debug('Sync done', {
    ipFamily: logFamily(family),
    elapsed: `${(nowMs - startMs).toFixed(1)}ms`,
    full: isFull,
    complete: written !== undefined,
    routes,
    ...sizes,
    tables: written,
  })
}
