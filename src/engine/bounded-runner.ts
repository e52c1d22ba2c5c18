import type { Clock } from '../clock.js'

/** The terms on which a run begins. */
export interface RunTerms {
  /** The rest after an earlier run is in progress: this one does only what is small, and leaves the other work. */
  readonly isResting: boolean
}

export interface BoundedRunnerOptions {
  /** One run. Resolves with the milliseconds after which the next run is due without a request; undefined: `maxIntervalMs`. */
  readonly run: (terms: RunTerms) => Promise<number | undefined>
  readonly clock: Clock
  /** Pause between the completion of a run and the next requested one. */
  readonly minIntervalMs: number
  /**
   * The next run waits for this multiple of the duration of the last one, but no longer than `longestRestMs`. If runs are long and
   * requests frequent, more of them share a run, and runs take at most 1 / (1 + factor) of the time, unless that limit applies.
   * Default 0.
   */
  readonly restFactor?: number
  /** Whether a run that is requested now may begin in the rest, with `isResting`. Default: false. */
  readonly mayRunInRest?: () => boolean
  /** A run starts at the latest this long after the last one ended. */
  readonly maxIntervalMs: number
  /**
   * Called after each run: it has left work, and the next run is requested. It begins at once, until such runs have gone on for as long as
   * the minimum interval. Default: false.
   */
  readonly isUnfinished?: () => boolean
  /** A run threw. Without a request the next one is due after `maxIntervalMs`. */
  readonly onCrash: (error: unknown) => void
}

/** After a run in a kernel that hangs, the next change waits no longer than this. */
const longestRestMs = 1000

/** Longest wait of a run that may begin in the rest: small runs so take two thirds of the time at most if each takes 8 ms. */
const shortRestMs = 4

/**
 * Runs one function at bounded frequency, as kube-proxy's runner does. Its guarantees, tested in
 * test/unit/engine/bounded-runner.test.ts:
 *
 * 1. One run at a time. Requests during a run share the next one.
 * 2. An idle runner starts in the turn of the request, once for all requests of that turn, unless guarantee 3 or 4 delays the run.
 * 3. The minimum interval counts from the end of a run, and does not delay the first one.
 * 4. The next run waits for `restFactor` times the last run, at most a second. One that is requested meanwhile and may run in the rest
 *    waits for `shortRestMs` at most; its own rest prolongs that of the others.
 * 5. A run starts at the latest `maxIntervalMs` after the last one ended, without a request too.
 * 6. A run may ask for an earlier next one, but not for a later one.
 * 7. A run that throws does not end the runner.
 * 8. `stop` resolves after the run in progress, and no run starts afterwards.
 * 9. Nothing runs before `start`.
 * 10. A run that left work requests the next one. Such runs follow each other at once, until they have gone on for as long as the minimum
 *     interval. Then guarantees 3 and 4 apply.
 */
export class BoundedRunner {
  readonly #options: BoundedRunnerOptions
  #state: 'new' | 'idle' | 'running' | 'stopped' = 'new'
  #isRequested = false
  /** The last run left work. */
  #isContinued = false
  /** No run begins before. */
  #earliest: number
  /** Only runs with `isResting` begin before, and none before `#shortRestEndMs`. */
  #restEndMs = -Infinity
  #shortRestEndMs = -Infinity
  #latest: number
  #cancelTimer: () => void = () => {}
  #running: Promise<void> = Promise.resolve()
  /** The start of the first one of the runs that left work since the last minimum interval. */
  #seriesStartMs: number | undefined

  constructor(options: BoundedRunnerOptions) {
    this.#options = options
    this.#earliest = options.clock.now()
    this.#latest = this.#earliest + options.maxIntervalMs
  }

  /** Lets runs begin. Idempotent. */
  start(): void {
    if (this.#state !== 'new') return
    this.#state = 'idle'
    this.#latest = this.#options.clock.now() + this.#options.maxIntervalMs
    this.#arm()
  }

  /** Requests a run; never blocks. */
  request(): void {
    if (this.#isRequested) return
    this.#isRequested = true
    this.#arm()
  }

  /** Ends the runner. Resolves after the run in progress. Idempotent. */
  async stop(): Promise<void> {
    this.#state = 'stopped'
    this.#cancelTimer()
    await this.#running
  }

  #arm(): void {
    if (this.#state !== 'idle') return
    this.#cancelTimer()
    const delayMs = this.#dueMs - this.#options.clock.now()
    if (delayMs > 0) {
      this.#cancelTimer = this.#options.clock.schedule(delayMs, () => this.#begin())
      return
    }
    // In the next microtask, so that the run has everything of this turn.
    let isCancelled = false
    this.#cancelTimer = () => {
      isCancelled = true
    }
    queueMicrotask(() => {
      if (!isCancelled) this.#begin()
    })
  }

  get #dueMs(): number {
    if (this.#isRequested && this.#options.mayRunInRest?.() === true)
      return Math.max(this.#earliest, this.#shortRestEndMs)
    const isWork = this.#isRequested || this.#isContinued
    return Math.max(this.#earliest, this.#restEndMs, isWork ? -Infinity : this.#latest)
  }

  #begin(): void {
    if (this.#state !== 'idle') return
    const isResting = this.#options.clock.now() < this.#restEndMs
    // It may not any more: what it was for needs a whole run.
    if (isResting && this.#options.mayRunInRest?.() !== true) return this.#arm()
    this.#state = 'running'
    this.#isRequested = false
    if (!isResting) this.#isContinued = false
    this.#running = this.#run({ isResting })
  }

  async #run(terms: RunTerms): Promise<void> {
    const { run, clock, minIntervalMs, maxIntervalMs, restFactor = 0, onCrash } = this.#options
    const startMs = clock.now()
    let againInMs: number | undefined
    let isUnfinished = false
    try {
      againInMs = await run(terms)
      isUnfinished = this.#options.isUnfinished?.() === true
    } catch (error) {
      onCrash(error)
    }
    if (this.#state === 'stopped') return
    this.#state = 'idle'
    const endMs = clock.now()
    this.#isContinued ||= isUnfinished
    const seriesStartMs = this.#seriesStartMs ?? startMs
    const goesOn = isUnfinished && endMs - seriesStartMs < minIntervalMs
    this.#seriesStartMs = goesOn ? seriesStartMs : undefined
    const restMs = Math.min((endMs - startMs) * restFactor, longestRestMs)
    this.#earliest = goesOn ? endMs : endMs + minIntervalMs
    const fromMs = terms.isResting ? Math.max(endMs, this.#restEndMs) : endMs
    this.#restEndMs = goesOn ? endMs : Math.min(fromMs + restMs, endMs + longestRestMs)
    this.#shortRestEndMs = goesOn ? endMs : endMs + Math.min(restMs, shortRestMs)
    this.#latest = endMs + Math.min(againInMs ?? maxIntervalMs, maxIntervalMs)
    this.#arm()
  }
}
