// The last hour: how long passes took, and how much drift there was.
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

/** A ring of samples. A sample reads the agent once per period and takes some 50 bytes. */
export class Samples {
  readonly #inspected: Pick<Inspected, 'synchronizer' | 'metric' | 'clock'>
  readonly #samples: Sample[] = []
  /** The end of the last sample. */
  #fromMs = 0
  #driftBefore = 0

  constructor(inspected: Pick<Inspected, 'synchronizer' | 'metric' | 'clock'>) {
    this.#inspected = inspected
  }

  /** Ends the current period. */
  async take(): Promise<void> {
    const { sample, nowMs, driftTotal } = await this.#current()
    this.#fromMs = nowMs
    this.#driftBefore = driftTotal
    this.#samples.push(sample)
    if (this.#samples.length > keptSamples) this.#samples.shift()
  }

  /** At most one hour, oldest first. The last one is the period that has not ended. */
  async lastHour(): Promise<readonly Sample[]> {
    const { sample } = await this.#current()
    return [...this.#samples, sample].slice(-keptSamples)
  }

  async #current(): Promise<{
    readonly sample: Sample
    readonly nowMs: number
    readonly driftTotal: number
  }> {
    const { synchronizer, metric, clock } = this.#inspected
    const series = await metric('viaduct_drift_total')
    const driftTotal = series.reduce((sum, { value }) => sum + value, 0)
    const durations = synchronizer.passes
      .filter(({ startSeconds, durationMs }) => startSeconds * 1000 + durationMs >= this.#fromMs)
      .map(({ durationMs }) => durationMs)
    const sample = {
      passCount: durations.length,
      slowestMs: Math.max(0, ...durations),
      drift: driftTotal - this.#driftBefore,
    }
    return { sample, nowMs: clock.unixMs(), driftTotal }
  }
}
