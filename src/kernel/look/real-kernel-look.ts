import type { IpFamily } from '../../address.js'
import type { Addon, RawKernelLook, RawLookWatch } from '../addon.js'
import { encodeVirtualServerKeys } from '../ipvs/encode.js'
import type { VirtualServerKey } from '../ipvs/ipvs.js'
import type { KernelLook, LookFinding, LookPace, LookWatch } from './kernel-look.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { type WaitingSocket, Watches } from '../watches.js'

/** Looks at the running kernel. */
export class RealKernelLook implements KernelLook {
  readonly #addon: () => Addon
  readonly #families: Uint8Array
  readonly #pace: LookPace
  readonly #queue: RequestQueue<RawKernelLook>
  readonly #watches = new Watches('xtables')
  /** The call in flight. */
  #flight: Promise<Uint8Array> | undefined

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
    const socket = this.#watches.open(() => new (this.#addon().LookWatch)(...scope))
    return new RealLookWatch(socket, this.#pace)
  }

  async close(): Promise<void> {
    await this.#watches.close()
    await this.#queue.close()
  }
}

class RealLookWatch implements LookWatch {
  readonly #socket: WaitingSocket<RawLookWatch>
  readonly #longestWaitMs: number

  constructor(socket: WaitingSocket<RawLookWatch>, { longestWaitMs }: LookPace) {
    this.#socket = socket
    this.#longestWaitMs = longestWaitMs
  }

  async next(sample: readonly VirtualServerKey[]): Promise<LookFinding | undefined> {
    const keys = encodeVirtualServerKeys(sample)
    return await this.#socket.wait((watch) => watch.next(keys, this.#longestWaitMs))
  }

  close(): Promise<void> {
    return this.#socket.close()
  }
}
