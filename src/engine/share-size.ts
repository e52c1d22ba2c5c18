// How many dirty service ports one pass takes.

/** A pass that leaves service ports for the next one should take this long: a change that comes meanwhile waits for it. */
export const shareMs = 10

/** Ten ports with 100 endpoints: a pass has costs of its own, for which a smaller share is not worth it, on a machine without time either. */
const fewestUnits = 1024

/** A million units: more than the largest Service has. */
const mostUnits = 1_048_576

/** Learns the number of units of work (`DirtyPorts`) that this machine, mode and kernel do in the time of a share. */
export class ShareSize {
  readonly #targetMs: number
  #units = 4096

  constructor(targetMs: number) {
    this.#targetMs = targetMs
  }

  get units(): number {
    return this.#units
  }

  /** A pass with a whole share took so long; 0: the clock shows no time. The next share is at most twice or half as large. */
  note(durationMs: number): void {
    if (durationMs <= 0) return
    const factor = this.#targetMs / durationMs
    const units = Math.round(this.#units * Math.min(2, Math.max(0.5, factor)))
    this.#units = Math.min(mostUnits, Math.max(fewestUnits, units))
  }
}
