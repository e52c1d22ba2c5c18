import type { Clock } from '../../clock.js'

/** Shortest time without a transaction of this program, after those of a series of runs. A series goes on for as long at most. */
export const transactionPauseMs = 100

/**
 * Keeps times free of transactions, for programs that read tables of nf_tables: they start over when any transaction falls into their
 * reading. Runs of the families share a time: a run that begins while another one is in progress does not wait. Nor does one that
 * continues the work of the last run, until such a series has gone on for as long as the pause is.
 */
export class TransactionPause {
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  #running = 0
  /** The start of the first run of the series in progress. */
  #seriesStartMs: number | undefined
  /** A run of the series made a transaction. */
  #hasWritten = false
  #quietUntilMs = -Infinity
  readonly #waiting = new Set<() => void>()

  constructor(clock: Pick<Clock, 'now' | 'schedule'>) {
    this.#clock = clock
  }

  /** Resolves when a run may begin; `end` must follow. */
  async begin(): Promise<void> {
    const restMs = this.#quietUntilMs - this.#clock.now()
    if (this.#running === 0 && restMs > 0) await this.#wait(restMs)
    this.#running++
    this.#seriesStartMs ??= this.#clock.now()
  }

  /** `hasWritten`: the run made a transaction. `isUnfinished`: the next run continues its work. */
  end({ hasWritten, isUnfinished }: { readonly hasWritten: boolean; readonly isUnfinished: boolean }): void {
    this.#running--
    this.#hasWritten ||= hasWritten
    if (this.#running > 0) return
    const nowMs = this.#clock.now()
    const seriesMs = nowMs - (this.#seriesStartMs ?? nowMs)
    if (isUnfinished && seriesMs < transactionPauseMs) return
    if (this.#hasWritten) this.#quietUntilMs = nowMs + transactionPauseMs
    this.#seriesStartMs = undefined
    this.#hasWritten = false
  }

  /** Ends the quiet time: no run waits. The next run that writes begins another one. */
  hurry(): void {
    this.#quietUntilMs = -Infinity
    for (const wake of this.#waiting) wake()
  }

  async #wait(restMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancel()
        this.#waiting.delete(wake)
        resolve()
      }
      const cancel = this.#clock.schedule(restMs, wake)
      this.#waiting.add(wake)
    })
  }
}
