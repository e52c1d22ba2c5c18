import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Clock } from '../clock.js'
import { connectionError } from './connection-problem.js'
import { IdleWatchdog, type IdleTimes } from './idle-watchdog.js'
import { Silence, type Incoming } from './transport/exchange.js'

/** An answer without a byte for this time ends, unless it may be quiet. */
const longestSilence = {
  /** TCP keep-alive detects a dead server much earlier, and many servers send a bookmark every minute. */
  direct: { least: 90_000, spread: 30_000 },
  /** TCP keep-alive asks only a proxy, or a load balancer on this machine. With the next request, less than 45 s. */
  relayed: { least: 32_000, spread: 6000 },
  /** The connection lives, but the server does not continue. */
  ping: { least: 90_000, spread: 30_000 },
}
/** So long a quiet answer may last after the time at which the server should have ended it. */
const overdueMs = 30_000

export interface AnswerBodyOptions {
  /** Method and path of the request. */
  readonly operation: string
  readonly clock: Clock
  /** From 0 to below 1: spreads the time after which silence ends the answer. */
  readonly spread: number
  /** The server ends the answer after this time; undefined: no time is agreed. */
  readonly endsAfterMs: number | undefined
  /** Called when silence ends the answer. */
  readonly silent: () => void
}

/** The body of an answer. Can be iterated once. Leaving the loop ends the answer. Throws ApiError. */
export class AnswerBody implements AsyncIterable<Buffer> {
  readonly #incoming: Incoming
  readonly #options: AnswerBodyOptions
  readonly #openedMs: number
  #mayBeQuiet = false
  /** PINGs watch over the connection no longer. */
  #isUnwatched = false
  /** The body, while it is read. */
  #stream: Readable | undefined
  #watchdog: IdleWatchdog | undefined
  #stopWatching: () => void = () => undefined

  constructor(incoming: Incoming, options: AnswerBodyOptions) {
    this.#incoming = incoming
    this.#options = options
    this.#openedMs = options.clock.now()
  }

  /**
   * Where PINGs show that the connection lives, silence ends the answer only when the server should have ended it. NB: a load balancer that
   * ends HTTP/2 answers PINGs itself, also when the server behind it is gone.
   */
  expectSilence(): void {
    if (this.#incoming.liveness !== 'ping' || this.#mayBeQuiet || this.#isUnwatched) return
    this.#mayBeQuiet = true
    this.#watch()
    this.#incoming.onPingsEnd?.(() => {
      this.#isUnwatched = true
      this.#mayBeQuiet = false
      this.#watch()
    })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { operation } = this.#options
    const stream = decompressed(this.#incoming)
    this.#stream = stream
    this.#watch()
    try {
      for await (const chunk of stream) {
        this.#watchdog?.touch()
        yield chunk
      }
    } catch (error) {
      throw connectionError(operation, error)
    } finally {
      this.#stream = undefined
      this.#stopWatching()
      this.#incoming.body.destroy()
    }
  }

  /** Watches over the body in place of how it was watched over before. Without a reader there is nothing to end. */
  #watch(): void {
    this.#stopWatching()
    const stream = this.#stream
    if (stream === undefined) return
    const { clock, spread, endsAfterMs } = this.#options
    if (!this.#mayBeQuiet) {
      const times = longestSilence[this.#incoming.liveness]
      return this.#endAfter({ idleMs: times.least + Math.floor(times.spread * spread) }, stream)
    }
    if (endsAfterMs === undefined) return
    const leftMs = Math.max(this.#openedMs + endsAfterMs - clock.now(), 0)
    this.#endAfter({ idleMs: overdueMs, firstMs: leftMs + overdueMs }, stream)
  }

  #endAfter(times: IdleTimes, stream: Readable): void {
    const { clock, silent } = this.#options
    const watchdog = new IdleWatchdog(clock, times, () => {
      silent()
      stream.destroy(new Silence(`nothing came for ${times.idleMs / 1000} s`))
    })
    this.#watchdog = watchdog
    this.#stopWatching = () => watchdog.stop()
  }
}

function decompressed({ headers, body }: Incoming): Readable {
  if (headers['content-encoding'] !== 'gzip') return body
  // The callback ignores errors: the reader of the stream gets them.
  return pipeline(body, createGunzip(), () => undefined)
}
