/** A watch that sees nothing: a plan is made at one moment. */
export class PlannedWatch {
  #end: () => void = () => {}
  readonly #ended = new Promise<undefined>((resolve) => {
    this.#end = () => resolve(undefined)
  })

  /** Resolves with undefined after close(). */
  next(): Promise<undefined> {
    return this.#ended
  }

  async close(): Promise<void> {
    this.#end()
  }
}
