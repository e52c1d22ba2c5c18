/** The middle value; NaN for an empty list. */
export function median(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN
}

/** How figures in milliseconds spread. */
export interface Spread {
  readonly medianMs: number
  readonly p99Ms: number
  readonly maxMs: number
}

/** NaN of none. */
export function spread(figures: readonly number[]): Spread {
  const sorted = figures.toSorted((a, b) => a - b)
  const p99Ms = sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN
  return { medianMs: median(sorted), p99Ms, maxMs: sorted.at(-1) ?? Number.NaN }
}

/** Median of each field. A missing field counts as 0. */
export function medians(runs: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const fields = new Set(runs.flatMap((run) => Object.keys(run)))
  return Object.fromEntries([...fields].map((field) => [field, median(runs.map((run) => run[field] ?? 0))]))
}

/** Milliseconds between two values of process.hrtime.bigint(). */
export function millisecondsBetween(startNs: bigint, endNs: bigint): number {
  return Number(endNs - startNs) / 1e6
}

/** Measures the times of named phases. */
export class Stopwatch {
  readonly #laps = new Map<string, number>()
  #last = performance.now()
  readonly #start = this.#last

  /** Adds the time since the last lap to `phase`. */
  lap(phase: string): void {
    const now = performance.now()
    this.#laps.set(phase, (this.#laps.get(phase) ?? 0) + now - this.#last)
    this.#last = now
  }

  /** Milliseconds of each phase, and `total`. */
  laps(): Readonly<Record<string, number>> {
    return { ...Object.fromEntries(this.#laps), total: this.#last - this.#start }
  }
}
