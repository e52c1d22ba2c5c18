// The rate at which one server accepts requests, in all and of each client. A flood of requests must not starve the sync of the event loop.
import type { Clock } from '../clock.js'

/** 1,000 requests per second cost a tenth of a core. A connection has one place in the queue. A probe waits for one second. */
const periodMs = 10
const leastTurnsPerPeriod = 10

export interface TurnsOptions {
  readonly clock: Pick<Clock, 'now' | 'schedule'>
  /** Turns per second that must be possible, for all sources together and for each. Default: the usual limits suffice. */
  readonly turnsPerSecond?: () => number
  /** All clients are one source, such as those of a Unix socket, and it may use all turns. Default: false. */
  readonly isOneSource?: boolean
}

/**
 * Runs work of several sources. In each 10 ms it runs at most 10 pieces, or as many as `turnsPerSecond` allows if that is more, and of each
 * source as many as its share allows (Shares). Sources take turns; the work of one source runs in order of arrival.
 */
export class Turns {
  readonly #clock: Pick<Clock, 'now' | 'schedule'>
  readonly #turnsPerSecond: () => number
  readonly #shares: Shares | undefined
  /** Waiting work by source. The source that has waited longest for a turn is the first. */
  readonly #waiting = new Map<string, Set<() => void>>()
  #periodStartMs = Number.NEGATIVE_INFINITY
  #used = 0
  #isScheduled = false

  constructor({ clock, turnsPerSecond = () => 0, isOneSource = false }: TurnsOptions) {
    this.#clock = clock
    this.#turnsPerSecond = turnsPerSecond
    this.#shares = isOneSource ? undefined : new Shares()
  }

  /** Calls `work` once: now if the period and the source's share have a turn left, otherwise later. */
  enter(source: string, work: () => void): void {
    const works = this.#waiting.get(source)
    if (works === undefined) this.#waiting.set(source, new Set([work]))
    else works.add(work)
    this.#run()
  }

  /** Removes work that has not run yet. */
  leave(source: string, work: () => void): void {
    const works = this.#waiting.get(source)
    if (works?.delete(work) === true && works.size === 0) this.#waiting.delete(source)
  }

  #run(): void {
    const now = this.#clock.now()
    if (now - this.#periodStartMs >= periodMs) {
      this.#periodStartMs = now
      this.#used = 0
      this.#shares?.forgetFull(now)
    }
    const perSecond = this.#turnsPerSecond()
    const turns = Math.max(leastTurnsPerPeriod, (perSecond * periodMs) / 1000)
    while (this.#used < turns) {
      const work = this.#takeNext(now, perSecond)
      if (work === undefined) break
      this.#used++
      work()
    }
    if (this.#waiting.size > 0) this.#runLater(this.#periodStartMs + periodMs - now)
  }

  /** The oldest work of the first source that has a turn left. That source is the last one then. undefined: no work may run now. */
  #takeNext(now: number, perSecond: number): (() => void) | undefined {
    for (const [source, works] of this.#waiting) {
      if (this.#shares?.take(source, now, perSecond) === false) continue
      const [work] = works
      if (work !== undefined) works.delete(work)
      this.#waiting.delete(source)
      if (works.size > 0) this.#waiting.set(source, works)
      return work
    }
    return undefined
  }

  #runLater(delayMs: number): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#clock.schedule(delayMs, () => {
      this.#isScheduled = false
      this.#run()
    })
  }
}

/**
 * 100 per second, and 10 at once: more than a prober, a scraper or an operator's browser sends. A client that gets more replies, each on a
 * new connection, keeps the kernel's queue of new connections full, and probes of others wait at its end.
 */
const [leastPerSecond, leastAtOnce] = [100, 10] as const

/** The shares of several sources of requests: a token bucket for each. */
export class Shares {
  /** When the bucket of a source is full again, in milliseconds. Full buckets are not kept. */
  readonly #fullMs = new Map<string, number>()

  /** Number of sources whose buckets are kept. */
  get size(): number {
    return this.#fullMs.size
  }

  /**
   * Takes a turn from the share of the source. Returns false if none is left now. A share is 100 turns per second and 10 at once, or
   * `perSecond` of both if that is more: a load balancer may ask for all its targets at once.
   */
  take(source: string, nowMs: number, perSecond: number): boolean {
    const turnMs = 1000 / Math.max(leastPerSecond, perSecond)
    const fullMs = Math.max(nowMs, this.#fullMs.get(source) ?? nowMs) + turnMs
    if (fullMs - nowMs > Math.max(leastAtOnce, perSecond) * turnMs) return false
    this.#fullMs.set(source, fullMs)
    return true
  }

  /** Forgets the sources whose share is whole again. The others are few: each has had a turn within the time that fills its bucket. */
  forgetFull(nowMs: number): void {
    for (const [source, fullMs] of this.#fullMs) if (fullMs <= nowMs) this.#fullMs.delete(source)
  }
}
