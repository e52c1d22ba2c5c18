import type { XtDrift } from './xtables.js'

/** Collects what `apply` repaired, for `Xtables.takeRepairs`. */
export class Repairs {
  readonly #missing = new Set<string>()
  readonly #changed = new Set<string>()

  add({ missing, changed }: XtDrift): void {
    for (const chain of missing) this.#missing.add(chain)
    for (const chain of changed) this.#changed.add(chain)
  }

  take(): XtDrift {
    const repairs = { missing: [...this.#missing], changed: [...this.#changed] }
    this.#missing.clear()
    this.#changed.clear()
    return repairs
  }
}
