import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Clock } from '../clock.js'
import { connectionError } from './connection-problem.js'
import { IdleWatchdog } from './idle-watchdog.js'
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

export interface AnswerBodyOptions {
  /** Method and path of the request. */
  readonly operation: string
  readonly clock: Clock
  /** From 0 to below 1: spreads the time after which silence ends the answer. */
  readonly spread: number
  /** Called when silence ends the answer. */
  readonly silent: () => void
}

/** The body of an answer. Can be iterated once. Leaving the loop ends the answer. Throws ApiError. */
export class AnswerBody implements AsyncIterable<Buffer> {
  readonly #incoming: Incoming
  readonly #options: AnswerBodyOptions
  #mayBeQuiet = false
  /** PINGs watch over the connection no longer. */
  #isUnwatched = false
  /** The body, while it is read. */
  #stream: Readable | undefined
  #watchdog: IdleWatchdog | undefined

  constructor(incoming: Incoming, options: AnswerBodyOptions) {
    this.#incoming = incoming
    this.#options = options
  }

  /** Silence no longer ends the answer where PINGs show that the connection lives. */
  expectSilence(): void {
    if (this.#incoming.liveness !== 'ping' || this.#mayBeQuiet || this.#isUnwatched) return
    this.#mayBeQuiet = true
    this.#watchdog?.stop()
    this.#incoming.onPingsEnd?.(() => {
      this.#isUnwatched = true
      this.#mayBeQuiet = false
      if (this.#stream !== undefined) this.#watchdog = this.#watch(this.#stream)
    })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { operation } = this.#options
    const stream = decompressed(this.#incoming)
    this.#stream = stream
    if (!this.#mayBeQuiet) this.#watchdog = this.#watch(stream)
    try {
      for await (const chunk of stream) {
        this.#watchdog?.touch()
        yield chunk
      }
    } catch (error) {
      throw connectionError(operation, error)
    } finally {
      this.#stream = undefined
      this.#watchdog?.stop()
      this.#incoming.body.destroy()
    }
  }

  #watch(stream: Readable): IdleWatchdog {
    const { clock, spread, silent } = this.#options
    const times = longestSilence[this.#incoming.liveness]
    const silenceMs = times.least + Math.floor(times.spread * spread)
    return new IdleWatchdog(clock, silenceMs, () => {
      silent()
      stream.destroy(new Silence(`nothing came for ${silenceMs / 1000} s`))
    })
  }
}

function decompressed({ headers, body }: Incoming): Readable {
  if (headers['content-encoding'] !== 'gzip') return body
  // The callback ignores errors: the reader of the stream gets them.
  return pipeline(body, createGunzip(), () => undefined)
}
