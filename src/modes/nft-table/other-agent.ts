// Finds out that another agent with other rules runs beside this one.
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { logFamily } from '../../engine/index.js'
import type { NftChange } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'
import { tableName } from './compile/schema.js'
import { agentRestMs } from './look-times.js'

/** Longest time between two rewrites of one series. Another agent repairs its rules twice a second. */
const gapMs = 2000

/** A series of this length is no accident, and no single restart of another program. */
const seriesMs = 5000

/** Without a rewrite for this time, the other agent has ended: two looks at the table. */
const quietMs = 2 * agentRestMs

export interface OtherAgentOptions {
  readonly family: IpFamily
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
}

/**
 * Another agent that writes other rules into the table of one family: one of another version during an upgrade, or one with other
 * settings. It shows itself by other rules in a chain of ours after each repair. A program that only removes rules is none.
 */
export class OtherAgent {
  readonly #options: OtherAgentOptions
  readonly #reporter: StateReporter
  #writer = { program: 'a program', pid: 0 }
  #firstMs = -Infinity
  #lastMs = -Infinity
  #isActive = false

  constructor(options: OtherAgentOptions) {
    this.#options = options
    this.#reporter = new StateReporter({
      log: options.log,
      level: 'warn',
      problemLine: 'Another agent is running',
      recovery: 'No other agent is running any more',
    })
  }

  /** Takes in changes of other programs: the last one that changed the table is the writer. */
  note(changes: readonly NftChange[]): void {
    const { family } = this.#options
    for (const change of changes) {
      if (change.kind !== 'transaction') continue
      const isOurs = change.objects.some((object) => object.family === family && object.table === tableName)
      if (isOurs) this.#writer = { program: change.program, pid: change.pid }
    }
  }

  /** A look found other rules in this chain. The caller repairs them. */
  noteRewritten(chain: string): void {
    const nowMs = this.#options.clock.now()
    if (!this.#isActive && nowMs - this.#lastMs > gapMs) this.#firstMs = nowMs
    this.#lastMs = nowMs
    if (this.#isActive || nowMs - this.#firstMs < seriesMs) return
    this.#isActive = true
    const { program, pid } = this.#writer
    const ipFamily = logFamily(this.#options.family)
    this.#reporter.report('', {
      text:
        `${program} (pid ${pid}) writes other rules into ${ipFamily} ${tableName} ${chain} after each repair: it has another version or ` +
        `other settings. Stop one of the two; until then Viaduct repairs its rules every ${agentRestMs / 1000} s at most`,
      fields: { ipFamily, program, pid },
    })
  }

  /** Whether the other agent runs now. Reports its end. */
  isActiveNow(): boolean {
    if (this.nextInMs() === 0) {
      this.#isActive = false
      this.#reporter.report('', undefined)
    }
    return this.#isActive
  }

  /** Milliseconds until `isActiveNow` may report the end; undefined: no other agent runs. */
  nextInMs(): number | undefined {
    if (!this.#isActive) return undefined
    return Math.max(0, this.#lastMs + quietMs - this.#options.clock.now())
  }
}
