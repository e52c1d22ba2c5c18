import type { XtOutcome } from '../../kernel/index.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { Pass, PassRecord } from '../../engine/index.js'
import type { IptablesTable } from './compile/desired.js'

export interface IptablesReport {
  readonly metrics: FamilyMetrics
  /** Number of service ports that were compiled. */
  readonly routes: number
  /** The pass compared the tables, changed the skeleton or took over, or repeats such a pass. Otherwise it only wrote changes. */
  readonly isFull: boolean
  /** Sizes of the cluster and of our rules, by the names of kube-proxy's lines. */
  readonly sizes: Readonly<Record<string, number>>
  /** Outcomes by table; undefined: not everything is in force. */
  readonly written: Partial<Record<IptablesTable, XtOutcome>> | undefined
}

/** Ends a pass that wrote or tried to write: metrics and a log line. */
export function endPass(pass: Pass, { metrics, routes, isFull, written, sizes }: IptablesReport): PassRecord {
  if (written === undefined) pass.fail()
  const fields = { full: isFull, routes, ...sizes, tables: written }
  const record = pass.end({ hasRefusals: false, fields })
  const seconds = record.durationMs / 1000
  if (isFull) metrics.fullSyncDurationSeconds.observe(seconds)
  else metrics.partialSyncDurationSeconds.observe(seconds)
  if (!record.isComplete && !isFull) metrics.iptablesPartialRestoreFailures.inc()
  return record
}
