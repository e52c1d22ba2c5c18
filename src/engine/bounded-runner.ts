import type { Clock } from '../clock.js'

export interface BoundedRunnerOptions {
  /** One run. Resolves with the delay in milliseconds after which it wants to run again; undefined: no wish. */
  readonly run: () => Promise<number | undefined>
  readonly clock: Clock
  /** Pause between the completion of a run and the next requested one. */
  readonly minIntervalMs: number
  /**
   * A requested run waits for so many times the duration of the last one, but no longer than `longestRestMs`: where runs are
   * long and requests frequent, more of them share a run, and at most 1 / (1 + factor) of the time is spent on runs. Default 0.
   */
  readonly restFactor?: number
  /** A run starts at the latest this long after the last one ended. */
  readonly maxIntervalMs: number
  /** A run threw; it is asked for again after maxIntervalMs. */
  readonly onCrash: (error: unknown) => void
}

/** A kernel that hangs is no reason to let the next change wait longer. */
const longestRestMs = 1000

/**
 * Runs one function at a time, at bounded frequency (kube-proxy's runner, spec 1.8): requests are one deep, the minimum
 * interval counts from completion, and the first request is not delayed. With a minimum of 0 it adapts: an idle runner
 * starts in the same turn, a busy one gathers all requests of its run, and of the rest after it, into the next.
 */
export class BoundedRunner {
  readonly #options: BoundedRunnerOptions
  #state: 'new' | 'idle' | 'running' | 'stopped' = 'new'
  #isRequested = false
  #earliest: number
  #latest: number
  #cancelTimer: () => void = () => {}
  #running: Promise<void> = Promise.resolve()

  constructor(options: BoundedRunnerOptions) {
    this.#options = options
    this.#earliest = options.clock.now()
    this.#latest = this.#earliest + options.maxIntervalMs
  }

  /** Idempotent. Nothing runs before. */
  start(): void {
    if (this.#state !== 'new') return
    this.#state = 'idle'
    this.#latest = this.#options.clock.now() + this.#options.maxIntervalMs
    this.#arm()
  }

  /** Asks for a run; never blocks. Requests before the run starts are one. */
  request(): void {
    if (this.#isRequested) return
    this.#isRequested = true
    this.#arm()
  }

  /** Waits for the run in progress; none starts any more. Idempotent. */
  async stop(): Promise<void> {
    this.#state = 'stopped'
    this.#cancelTimer()
    await this.#running
  }

  #arm(): void {
    if (this.#state !== 'idle') return
    this.#cancelTimer()
    const due = this.#isRequested ? this.#earliest : Math.max(this.#earliest, this.#latest)
    const delayMs = due - this.#options.clock.now()
    if (delayMs > 0) {
      this.#cancelTimer = this.#options.clock.schedule(delayMs, () => this.#begin())
      return
    }
    // In the next microtask, so that everything that this turn brings is in the run.
    let isCancelled = false
    this.#cancelTimer = () => {
      isCancelled = true
    }
    queueMicrotask(() => {
      if (!isCancelled) this.#begin()
    })
  }

  #begin(): void {
    if (this.#state !== 'idle') return
    this.#state = 'running'
    this.#isRequested = false
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    const { run, clock, minIntervalMs, maxIntervalMs, restFactor = 0, onCrash } = this.#options
    const startMs = clock.now()
    let againInMs: number | undefined
    try {
      againInMs = await run()
    } catch (error) {
      onCrash(error)
    }
    if (this.#state === 'stopped') return
    this.#state = 'idle'
    const endMs = clock.now()
    const restMs = Math.min((endMs - startMs) * restFactor, longestRestMs)
    this.#earliest = endMs + Math.max(minIntervalMs, restMs)
    this.#latest = endMs + Math.min(againInMs ?? maxIntervalMs, maxIntervalMs)
    this.#arm()
  }
}
