// The last hour: how long passes took, and how much drift there was.
import type { Clock } from '../clock.js'
import type { Inspected } from '../inspect/index.js'

/** One period. */
export interface Sample {
  readonly passCount: number
  /** 0: no pass ended in the period. */
  readonly slowestMs: number
  /** Differences that other programs made in the kernel. */
  readonly drift: number
}

export const samplePeriodMs = 30_000
const keptSamples = 120
type Read = Pick<Inspected, 'synchronizer' | 'metric' | 'clock'>

/** A ring of samples. A sample takes some 50 bytes. */
export class Samples {
  readonly #inspected: Read
  readonly #samples: Sample[] = []
  /** Passes that ended before this time are counted. */
  #countedToMs = 0
  /** Number of passes that ended in the current period. */
  #passCount = 0
  /** Time of the slowest of them. */
  #slowestMs = 0
  #driftBefore = 0
  #taken = 0

  constructor(inspected: Read) {
    this.#inspected = inspected
  }

  /** Number of periods that have ended. */
  get taken(): number {
    return this.#taken
  }

  /** Keeps samples until the returned function is called. */
  start(clock: Pick<Clock, 'every'>): () => void {
    // A family keeps some 60 passes, and changes that follow each other make up to 20 passes per second.
    const cancelLooks = this.#inspected.synchronizer.onRunEnd(() => this.#look())
    const cancelSamples = clock.every(samplePeriodMs, () => void this.#take())
    return () => {
      cancelLooks()
      cancelSamples()
    }
  }

  /** At most one hour, oldest first. The last one is the period that has not ended. */
  async lastHour(): Promise<readonly Sample[]> {
    this.#look()
    return [...this.#samples, this.#sample(await this.#driftTotal())].slice(-keptSamples)
  }

  /** Counts the passes that ended since the last look. */
  #look(): void {
    const { synchronizer, clock } = this.#inspected
    const nowMs = clock.unixMs()
    for (const { passes } of synchronizer.views)
      for (const { startSeconds, durationMs } of passes) {
        const endMs = startSeconds * 1000 + durationMs
        if (endMs < this.#countedToMs || endMs >= nowMs) continue
        this.#passCount++
        this.#slowestMs = Math.max(this.#slowestMs, durationMs)
      }
    this.#countedToMs = nowMs
  }

  /** Ends the current period. */
  async #take(): Promise<void> {
    const driftTotal = await this.#driftTotal()
    this.#look()
    this.#samples.push(this.#sample(driftTotal))
    if (this.#samples.length > keptSamples) this.#samples.shift()
    this.#driftBefore = driftTotal
    this.#passCount = 0
    this.#slowestMs = 0
    this.#taken++
  }

  #sample(driftTotal: number): Sample {
    return {
      passCount: this.#passCount,
      slowestMs: this.#slowestMs,
      drift: driftTotal - this.#driftBefore,
    }
  }

  async #driftTotal(): Promise<number> {
    const series = await this.#inspected.metric('viaduct_drift_total')
    return series.reduce((sum, { value }) => sum + value, 0)
  }
}
