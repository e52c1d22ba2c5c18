/** The first event that ends the agent: a signal or an error. */
export class FirstEnd {
  /** Resolves with the signal, or rejects with the error, that ends the agent. */
  readonly happened: Promise<NodeJS.Signals>
  #resolve: (signal: NodeJS.Signals) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor() {
    this.happened = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // The error may come before a caller waits for it.
    this.happened.catch(() => undefined)
  }

  /** Ends the agent with this error. */
  readonly fail = (error: unknown): void => this.#reject(error)

  /** Ends the agent when `signal` resolves, or with its error. */
  onSignal(signal: Promise<NodeJS.Signals>): void {
    signal.then(this.#resolve, this.#reject)
  }

  /** Ends the agent if `work` fails. Its success ends nothing. */
  onFailureOf(work: Promise<unknown>): void {
    work.catch(this.#reject)
  }

  /** Resolves with the result of `work`, or with the signal if that comes first. Rejects with the first error. */
  async before<T>(work: Promise<T>): Promise<T | NodeJS.Signals> {
    return await Promise.race([this.happened, work])
  }
}
