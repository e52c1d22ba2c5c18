import type { IpFamily } from '../../address.js'
import type { Addon, RawKernelLook, RawLookWatch } from '../addon.js'
import { encodeVirtualServerKeys } from '../ipvs/encode.js'
import type { VirtualServerKey } from '../ipvs/ipvs.js'
import type { KernelLook, LookFinding, LookPace, LookWatch } from './kernel-look.js'
import { addressFamily } from '../records.js'
import { type CallCounts, closedError, RequestQueue, toKernelError } from '../request-queue.js'
import { wakeAtExit } from '../wake-at-exit.js'

/** Looks at the running kernel. */
export class RealKernelLook implements KernelLook {
  readonly #addon: () => Addon
  readonly #families: Uint8Array
  readonly #pace: LookPace
  readonly #queue: RequestQueue<RawKernelLook>
  /** The open watches. */
  readonly #watches = new Set<RealLookWatch>()
  /** The call in flight. */
  #flight: Promise<Uint8Array> | undefined
  #isClosed = false

  constructor(addon: () => Addon, families: readonly IpFamily[], pace: LookPace, calls: CallCounts) {
    this.#addon = addon
    this.#pace = pace
    this.#families = Uint8Array.from(families, (family) => addressFamily[family])
    this.#queue = new RequestQueue(() => new (addon().KernelLook)(this.#families), 'xtables', calls)
  }

  take(): Promise<Uint8Array> {
    this.#flight ??= this.#queue
      .run((look) => look.take())
      .finally(() => {
        this.#flight = undefined
      })
    return this.#flight
  }

  watch(setPrefix: string): LookWatch {
    return this.#watch([this.#families, this.#pace.periodMs, setPrefix, this.#pace.setsShare])
  }

  watchTables(): LookWatch {
    return this.#watch([this.#families, this.#pace.periodMs])
  }

  #watch(scope: ConstructorParameters<Addon['LookWatch']>): LookWatch {
    if (this.#isClosed) throw closedError('xtables')
    const watch = new RealLookWatch(this.#open(scope), this.#pace, () => this.#watches.delete(watch))
    this.#watches.add(watch)
    return watch
  }

  #open(scope: ConstructorParameters<Addon['LookWatch']>): RawLookWatch {
    try {
      return new (this.#addon().LookWatch)(...scope)
    } catch (error) {
      throw toKernelError(error, 'xtables')
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#watches].map((watch) => watch.close()))
    await this.#queue.close()
  }
}

class RealLookWatch implements LookWatch {
  readonly #queue: RequestQueue<RawLookWatch>
  readonly #raw: RawLookWatch
  readonly #longestWaitMs: number
  readonly #forget: () => void
  #isClosed = false

  constructor(raw: RawLookWatch, { longestWaitMs }: LookPace, forget: () => void) {
    this.#raw = raw
    this.#longestWaitMs = longestWaitMs
    this.#queue = new RequestQueue(() => raw, 'xtables')
    const endWake = wakeAtExit(raw)
    this.#forget = () => {
      endWake()
      forget()
    }
  }

  async next(sample: readonly VirtualServerKey[]): Promise<LookFinding | undefined> {
    if (this.#isClosed) return undefined
    const keys = encodeVirtualServerKeys(sample)
    try {
      const found = await this.#queue.run((watch) => watch.next(keys, this.#longestWaitMs))
      return this.#isClosed ? undefined : found
    } catch (error) {
      if (this.#isClosed) return undefined
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#raw.close() // ends the wait in flight; idempotent
    this.#forget()
  }
}
