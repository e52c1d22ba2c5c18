import type { Clock } from '../../clock.js'

// kube-proxy sends a PING after 30 s of silence and waits 15 s (k8s.io/apimachinery/pkg/util/net). With a new connection and its requests
// that is more than 45 s. The spread keeps the nodes of a cluster apart when a device on the way to its servers dies.
const pause = { least: 20_000, spread: 8000 }
const answerMs = 15_000

export interface PingCheckOptions {
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly spread: number
  /** Sends a PING. `done` gets an error when the connection has ended. */
  readonly ping: (done: (error: Error | null) => void) => void
  /** The bytes that came so far. */
  readonly received: () => number
  /** Called before each PING that time demands. false: none is sent, and the check ends. */
  readonly isNeeded: () => boolean
  /** Called after each answer. */
  readonly alive: () => void
  /** Called once when nothing came in time; the check has ended. */
  readonly lost: (problem: string) => void
}

/** Asks the other end of a connection every 20 to 28 s for a sign of life. A dead one is found within 43 s. */
export class PingCheck {
  readonly #options: PingCheckOptions
  #cancel: () => void = () => undefined
  #isAsking = false
  #isStopped = false

  constructor(options: PingCheckOptions) {
    this.#options = options
    this.#rest()
  }

  /** Asks now, if no question is open. */
  ask(): void {
    if (this.#isAsking || this.#isStopped) return
    this.#cancel()
    this.#isAsking = true
    const { clock, ping, received, alive, lost } = this.#options
    const before = received()
    this.#cancel = clock.schedule(answerMs, () => {
      // A long answer on a slow line comes before the answer to the PING.
      if (received() > before) return this.#rest()
      this.stop()
      lost(`no answer to a PING within ${answerMs / 1000} s`)
    })
    ping((error) => {
      if (error !== null || this.#isStopped) return
      if (this.#isAsking) this.#rest()
      alive()
    })
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  #rest(): void {
    this.#cancel()
    this.#isAsking = false
    const { clock, spread, isNeeded } = this.#options
    this.#cancel = clock.schedule(pause.least + Math.floor(pause.spread * spread), () => {
      if (isNeeded()) this.ask()
      else this.stop()
    })
  }
}
