import type { ModeWatch } from './mode.js'

/** Several watches as one, which ends when all have ended. When one of several ends, pipelines need a run. */
export class JoinedWatch implements ModeWatch {
  readonly #watches: readonly ModeWatch[]
  /** The calls of `next` in progress, of the watches that have not ended. */
  readonly #waits = new Map<ModeWatch, Promise<{ readonly watch: ModeWatch; readonly goesOn: boolean }>>()

  constructor(watches: readonly ModeWatch[]) {
    this.#watches = watches
    for (const watch of watches) this.#wait(watch)
  }

  async next(): Promise<boolean> {
    if (this.#waits.size === 0) return false
    const { watch, goesOn } = await Promise.race(this.#waits.values())
    if (goesOn) this.#wait(watch)
    else this.#waits.delete(watch)
    return this.#waits.size > 0
  }

  async close(): Promise<void> {
    await Promise.all(this.#watches.map((watch) => watch.close()))
  }

  #wait(watch: ModeWatch): void {
    this.#waits.set(
      watch,
      watch.next().then((goesOn) => ({ watch, goesOn })),
    )
  }
}
