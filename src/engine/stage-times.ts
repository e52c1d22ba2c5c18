import type { Clock } from '../clock.js'

/**
 * The time of a pass by stage. Compile, plan and kernel add up to the duration of the pass; other work of the agent that comes in
 * between counts for the stage that it interrupts.
 */
export interface PassStages {
  /** From the oldest event of the pass to its start: minimum times between passes, failed passes. Absent: it is for no event. */
  readonly waitingMs?: number
  /** The changed service ports are decided and compiled. */
  readonly compileMs: number
  /** The desired state is compared with the acknowledged one, operations are made and encoded, and answers are entered. */
  readonly planMs: number
  /** The pass has nothing to do but to wait for the kernel, which is read or answers operations. */
  readonly kernelMs: number
}

/**
 * Measures the stages of one family's passes. A pass may compile or plan its next operations while the kernel works: that time counts
 * as compile or plan, and only the rest of the kernel's time counts as kernel. What no call claims is plan.
 */
export class StageTimes {
  readonly #clock: Pick<Clock, 'now'>
  #compileMs = 0
  #planMs = 0
  #kernelMs = 0
  /** The time up to here is counted. */
  #countedMs: number
  #isCompiling = false
  #isPlanning = false
  /** Number of waits for the kernel. */
  #waits = 0

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
    this.#countedMs = clock.now()
  }

  /** A pass begins, at this time of the clock. */
  begin(nowMs: number): void {
    this.#count(nowMs)
    this.#isCompiling = false
    this.#compileMs = 0
    this.#planMs = 0
    this.#kernelMs = 0
  }

  beginCompile(): void {
    this.#count()
    this.#isCompiling = true
  }

  endCompile(): void {
    this.#count()
    this.#isCompiling = false
  }

  /** Counts `work` as plan, even while the kernel works. */
  plan<T>(work: () => T): T {
    this.#count()
    this.#isPlanning = true
    try {
      return work()
    } finally {
      this.#count()
      this.#isPlanning = false
    }
  }

  /** Counts the time until the promise settles as kernel. What `ask` does before its first wait is not in it. */
  async inKernel<T>(ask: () => Promise<T>): Promise<T> {
    const answer = ask()
    this.#count()
    this.#waits++
    try {
      return await answer
    } finally {
      this.#count()
      this.#waits--
    }
  }

  /** The times from `begin` to this time of the clock. */
  timesAt(nowMs: number): Required<Omit<PassStages, 'waitingMs'>> {
    this.#count(nowMs)
    return { compileMs: this.#compileMs, planMs: this.#planMs, kernelMs: this.#kernelMs }
  }

  #count(nowMs = this.#clock.now()): void {
    const elapsedMs = nowMs - this.#countedMs
    this.#countedMs = nowMs
    if (this.#isCompiling) this.#compileMs += elapsedMs
    else if (this.#waits > 0 && !this.#isPlanning) this.#kernelMs += elapsedMs
    else this.#planMs += elapsedMs
  }
}
