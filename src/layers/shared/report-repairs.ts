import type { IpFamily } from '../../address.js'
import { logFamily } from '../../engine/index.js'
import type { Xtables } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'

interface RepairReportOptions {
  readonly family: IpFamily
  readonly log: Log
  readonly metrics: Pick<FamilyMetrics, 'drift'>
}

/**
 * Counts and logs what `apply` repaired in the table since the last call (`Xtables.takeRepairs`). Call it after each write and
 * each look: a write may meet a change that no look saw, and the removal of leftovers writes the same tables.
 */
export function reportRepairs(
  { family, log, metrics }: RepairReportOptions,
  xtables: Pick<Xtables, 'table' | 'takeRepairs'>,
): void {
  const { missing, changed } = xtables.takeRepairs()
  if (missing.length + changed.length === 0) return
  metrics.drift('chain-missing').inc(missing.length)
  metrics.drift('chain-changed').inc(changed.length)
  log.info('Kernel state differs and is repaired', {
    ipFamily: logFamily(family),
    table: xtables.table,
    missing: shortened(missing),
    changed: shortened(changed),
  })
}

/** Ten names are enough for a log line. */
export function shortened(names: readonly string[]): readonly string[] {
  return names.length <= 10 ? names : [...names.slice(0, 10), `and ${names.length - 10} more`]
}
