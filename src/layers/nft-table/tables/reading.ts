// The differences that a reading of the table found, and their report.
import type { IpFamily } from '../../../address.js'
import { logFamily } from '../../../engine/index.js'
import type { Log } from '../../../log.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import { DriftCounter } from '../../objects/index.js'
import { shortened } from '../../shared/index.js'
import type { ForeignContent } from '../other-agents.js'

export type NftDriftKind =
  'chain-missing' | 'chain-changed' | 'set-missing' | 'elements-changed' | 'element-unexpected'

/** The differences between a reading and the acknowledged state. */
export class Reading {
  readonly drift = new DriftCounter<NftDriftKind>()
  /** Names of sets and chains. */
  readonly missing: string[] = []
  readonly changed: string[] = []
  /** Content that this agent did not write, and does not want, by the names of the sets and chains: a sample of each. */
  readonly foreign = new Map<string, ForeignContent>()

  /** Elements of others that were to be deleted are gone. */
  hasLostStrays = false

  get isDifferent(): boolean {
    return this.drift.counts.size > 0
  }

  note(kind: NftDriftKind, name: string, count = 1): void {
    if (count === 0) return
    for (let left = count; left > 0; left--) this.drift.add(kind)
    const names = kind.endsWith('missing') ? this.missing : this.changed
    if (!names.includes(name)) names.push(name)
  }
}

interface DriftReportsOptions {
  readonly family: IpFamily
  /** The name of the table. */
  readonly table: string
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the content of other programs that a transaction repaired, by the names of the sets and chains. Absent: nothing gets it. */
  readonly onForeign?: (found: Reading['foreign']) => void
}

/** Differences that the next transaction repairs. Without a transaction, another agent wrote what this one wants as well. */
export class DriftReports {
  readonly #options: DriftReportsOptions
  #unreported: Reading[] = []

  constructor(options: DriftReportsOptions) {
    this.#options = options
  }

  add(reading: Reading): void {
    this.#unreported.push(reading)
  }

  /** `isRepaired`: the differences are no more, or still are, by a transaction of ours. */
  report({ isRepaired }: { readonly isRepaired: boolean }): void {
    const { family, table, log, metrics, onForeign } = this.#options
    for (const reading of this.#unreported.splice(0)) {
      if (!isRepaired) continue
      onForeign?.(reading.foreign)
      for (const [kind, count] of reading.drift.counts) metrics.drift(kind).inc(count)
      log.info('Kernel state differs and is repaired', {
        ipFamily: logFamily(family),
        table,
        missing: shortened(reading.missing),
        changed: shortened(reading.changed),
      })
    }
  }
}
