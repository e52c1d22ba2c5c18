import type { ServicePortKey } from '../model/index.js'

export interface InForceTimesOptions {
  /** Whether the service port still exists. */
  readonly isKnown: (key: ServicePortKey) => boolean
  /** Whether objects that the kernel refused in an earlier pass wait for a retry. */
  readonly hasFailures: () => boolean
}

/**
 * Since when each service port of one family is in force: the end of the first pass without refusals after its last change. While the
 * kernel refuses an object of the family, a changed service port has no time: the refused object may be its own.
 */
export class InForceTimes {
  readonly #options: InForceTimesOptions
  readonly #times = new Map<ServicePortKey, number>()
  readonly #waiting = new Set<ServicePortKey>()

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
    for (const key of this.#waiting) if (isKnown(key)) this.#times.set(key, unixMs)
    this.#waiting.clear()
  }

  /** Unix milliseconds; undefined: the last change of the service port is not known to be in force. */
  since(key: ServicePortKey): number | undefined {
    return this.#times.get(key)
  }
}
