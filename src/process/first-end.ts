/** The first event that ends the agent: a signal or an error. */
export class FirstEnd {
  /** Resolves with the signal that ends the agent; rejects with the error that does. */
  readonly happened: Promise<NodeJS.Signals>
  #resolve: (signal: NodeJS.Signals) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor() {
    this.happened = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // The error may come before anything waits for it.
    this.happened.catch(() => undefined)
  }

  /** Ends the agent with an error. */
  readonly fail = (error: unknown): void => this.#reject(error)

  /** Ends the agent when `signal` resolves or rejects. */
  onSignal(signal: Promise<NodeJS.Signals>): void {
    signal.then(this.#resolve, this.#reject)
  }

  /** Ends the agent when this work rejects. */
  onFailureOf(work: Promise<unknown>): void {
    work.catch(this.#reject)
  }

  /** Resolves as `work` does, or with a signal that comes first; rejects with the first error. */
  async before<T>(work: Promise<T>): Promise<T | NodeJS.Signals> {
    return await Promise.race([this.happened, work])
  }
}
