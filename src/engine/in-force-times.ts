import type { ServicePortKey } from '../model/index.js'

export interface InForceTimesOptions {
  /** Whether the service port still exists. */
  readonly isKnown: (key: ServicePortKey) => boolean
  /** Whether objects that the kernel refused in an earlier pass wait for a retry. */
  readonly hasFailures: () => boolean
}

/** The end of a pass from which on service ports are in force. */
interface Settled {
  readonly unixMs: number
  /** The number of the `settle`. */
  readonly order: number
}

/**
 * Since when each service port of one family is in force: the end of the first pass without refusals after its last change. While the
 * kernel refuses an object of the family, a changed service port has no time: the refused object may be its own.
 */
export class InForceTimes {
  readonly #options: InForceTimesOptions
  readonly #times = new Map<ServicePortKey, Settled>()
  readonly #waiting = new Set<ServicePortKey>()
  /** Orders events where the time may be set back. */
  #lastOrder = 0

  constructor(options: InForceTimesOptions) {
    this.#options = options
  }

  /** These service ports changed. They have no time until the next `settle`. */
  change(keys: Iterable<ServicePortKey>): void {
    for (const key of keys) {
      this.#times.delete(key)
      this.#waiting.add(key)
    }
  }

  /** A pass ended, complete and without refusals, at `unixMs`. */
  settle(unixMs: number): void {
    const { isKnown, hasFailures } = this.#options
    if (hasFailures()) return
    const settled = { unixMs, order: ++this.#lastOrder }
    for (const key of this.#waiting) if (isKnown(key)) this.#times.set(key, settled)
    this.#waiting.clear()
  }

  /** Unix milliseconds; undefined: the last change of the service port is not known to be in force. */
  since(key: ServicePortKey): number | undefined {
    return this.#times.get(key)?.unixMs
  }

  /** For a reading of the kernel that begins now: tells later whether the service port was in force now, and has not changed since. */
  asOfNow(): (key: ServicePortKey) => boolean {
    const order = this.#lastOrder
    return (key) => {
      const settled = this.#times.get(key)
      return settled !== undefined && settled.order <= order
    }
  }
}
