import type { Clock } from '../../clock.js'
import { KernelQuestions, type KernelQuestionsOptions } from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import type { XtDrift, Xtables } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import { RetryQueue } from '../objects/index.js'
import { reportRepairs } from '../shared/index.js'

interface TableLooksOptions<Table extends string> extends KernelQuestionsOptions {
  readonly tables: Readonly<Record<Table, Xtables>>
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
}

/**
 * `cheap` compares a table only if it has certainly changed since our last write; `full` compares all rules. `unchanged`: no look was
 * due, or it found nothing. `changed`: our chains are as desired, and the table is not as after our last write. `unknown`: the kernel refused.
 */
type TableLook = 'unchanged' | 'changed' | 'different' | 'unknown'

/**
 * Looks at the x_tables of one family. A refusal is a problem of its own, beside that of a write: it is reported until a look succeeds,
 * and the next look at the table comes with back-off, and compares all rules.
 */
export class TableLooks<Table extends string> {
  readonly #options: TableLooksOptions<Table>
  readonly #questions: KernelQuestions
  readonly #retries: RetryQueue<Table>

  constructor(options: TableLooksOptions<Table>) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
    this.#retries = new RetryQueue(options.clock)
  }

  async look(table: Table, kind: 'cheap' | 'full'): Promise<TableLook> {
    const wasRefused = this.#retries.has(table)
    if (wasRefused && !this.#retries.due().includes(table)) return 'unchanged'
    const xtables = this.#options.tables[table]
    const about = {
      key: `look ${table}`,
      subject: `table ${table}`,
      fields: { table },
      retry: this.#retries.of(table),
    }
    const drift = await this.#questions.ask(
      about,
      async () => await findDrift(xtables, wasRefused ? 'full' : kind),
    )
    reportRepairs(this.#options, xtables)
    if (drift === undefined) return 'unchanged'
    if (drift instanceof KernelError) return 'unknown'
    return isAny(drift) ? 'different' : 'changed'
  }
}

async function findDrift(xtables: Xtables, kind: 'cheap' | 'full'): Promise<XtDrift | undefined> {
  if (kind === 'cheap') return (await xtables.check()) ? undefined : await xtables.compare()
  const drift = await xtables.compare()
  return isAny(drift) || !(await xtables.check()) ? drift : undefined
}

function isAny({ missing, changed }: XtDrift): boolean {
  return missing.length + changed.length > 0
}
