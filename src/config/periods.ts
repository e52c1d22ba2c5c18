import { ConfigError } from '../errors.js'

/** How often a mode works. */
export interface SyncPeriods {
  /** Between two full comparisons with the kernel. */
  readonly syncPeriodMs: number
  /** 0: apply at once when idle. */
  readonly minSyncPeriodMs: number
}

export type SyncPeriodsInput = { readonly [K in keyof SyncPeriods]?: number | undefined }

// A timer of Node with a longer delay than 2^31 - 1 ms fires at once.
const longestPeriodHours = 596

/** Throws ConfigError with `mode` before the field. */
export function resolvePeriods(mode: string, input: SyncPeriodsInput): SyncPeriods {
  const { syncPeriodMs = 30_000, minSyncPeriodMs = 0 } = input
  if (!(syncPeriodMs > 0)) throw new ConfigError(`${mode}.syncPeriod`, 'must be greater than 0')
  if (syncPeriodMs > longestPeriodHours * 3_600_000) {
    throw new ConfigError(`${mode}.syncPeriod`, `must be at most ${longestPeriodHours}h`)
  }
  if (!(minSyncPeriodMs >= 0)) throw new ConfigError(`${mode}.minSyncPeriod`, 'must not be negative')
  if (minSyncPeriodMs > syncPeriodMs) {
    throw new ConfigError(
      `${mode}.minSyncPeriod`,
      `must not be longer than the sync period (${syncPeriodMs} ms)`,
    )
  }
  return { syncPeriodMs, minSyncPeriodMs }
}
