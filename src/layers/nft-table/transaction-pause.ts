import type { Clock } from '../../clock.js'

/** Shortest time without a transaction of this program, after those of a run. */
export const transactionPauseMs = 100

/**
 * Keeps times free of transactions, for programs that read tables of nf_tables: they start over when any transaction falls into their
 * reading. Runs of the families share a time: a run that begins while another one is in progress does not wait.
 */
export class TransactionPause {
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  #running = 0
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
  }

  /** `hasWritten`: the run made a transaction. */
  end({ hasWritten }: { readonly hasWritten: boolean }): void {
    this.#running--
    if (hasWritten) this.#quietUntilMs = this.#clock.now() + transactionPauseMs
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
