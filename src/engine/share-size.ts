// How many dirty service ports one pass takes.

/** A pass that leaves service ports for the next one should take this long: a change that comes meanwhile waits for it. */
export const shareMs = 10

/** Ten ports with 100 endpoints: a smaller share is not worth a pass. */
const fewestUnits = 1024

/** A million units: more than the largest Service has. */
const mostUnits = 1_048_576

/** Weight of what is known when a share is noted. Five shares later its weight is a third. */
const decay = 0.8

/**
 * Learns the number of units of work (`DirtyPorts`) that this machine, mode and kernel do in the time of a share. A pass has a cost of its
 * own, such as the validation of a transaction, which does not depend on its units: at least half of a share's time is work.
 */
export class ShareSize {
  readonly #targetMs: number
  #units = 4096
  /** The line `ms = fixed + slope * units` through the last shares, by least squares: sums of weights, units, ms, units², units · ms. */
  #sums = { weight: 0, units: 0, ms: 0, squares: 0, products: 0 }
  /** Milliseconds of a pass without units. */
  #fixedMs = 0

  constructor(targetMs: number) {
    this.#targetMs = targetMs
  }

  get units(): number {
    return this.#units
  }

  /** A pass with a whole share took so long; 0: the clock shows no time. The next share is at most twice or half as large. */
  note(durationMs: number): void {
    if (durationMs <= 0) return
    const msPerUnit = this.#learn(this.#units, durationMs)
    const workMs = Math.max(this.#targetMs - this.#fixedMs, this.#fixedMs)
    // Without a cost that can be seen, twice as many units show more.
    const wanted = msPerUnit > 0 ? workMs / msPerUnit : mostUnits
    const units = Math.round(Math.min(2 * this.#units, Math.max(this.#units / 2, wanted)))
    this.#units = Math.min(mostUnits, Math.max(fewestUnits, units))
  }

  /** Returns the milliseconds of one unit. */
  #learn(units: number, ms: number): number {
    const former = this.#sums
    this.#sums = {
      weight: former.weight * decay + 1,
      units: former.units * decay + units,
      ms: former.ms * decay + ms,
      squares: former.squares * decay + units * units,
      products: former.products * decay + units * ms,
    }
    const { weight, squares, products } = this.#sums
    const mean = { units: this.#sums.units / weight, ms: this.#sums.ms / weight }
    const variance = squares / weight - mean.units ** 2
    // Shares of nearly one size say nothing about the fixed part: what was learned before stays.
    if (variance > (mean.units / 10) ** 2) {
      const slope = (products / weight - mean.units * mean.ms) / variance
      this.#fixedMs = Math.min(ms, Math.max(0, mean.ms - Math.max(0, slope) * mean.units))
    }
    return (ms - this.#fixedMs) / units
  }
}
