/** What ends the agent: whatever happens first of all that may end it. */
export class FirstEnd {
  /** Resolves with the signal that ends it; rejects with the error that does. */
  readonly happened: Promise<NodeJS.Signals>
  #resolve: (signal: NodeJS.Signals) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor() {
    this.happened = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // It may happen before anything waits for it.
    this.happened.catch(() => undefined)
  }

  /** An error ends the agent now. */
  readonly fail = (error: unknown): void => this.#reject(error)

  /** The signal ends the agent, or an error. */
  onSignal(signal: Promise<NodeJS.Signals>): void {
    signal.then(this.#resolve, this.#reject)
  }

  /** An error of this work ends the agent; its success ends nothing. */
  onFailureOf(work: Promise<unknown>): void {
    work.catch(this.#reject)
  }

  /** Resolves as `work` does, or with the signal if that comes first; rejects with what fails first. */
  async before<T>(work: Promise<T>): Promise<T | NodeJS.Signals> {
    return await Promise.race([this.happened, work])
  }
}
