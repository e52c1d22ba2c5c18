import type { VirtualServerKey } from '../ipvs/ipvs.js'
import type { IpFamily } from '../../address.js'
import type { Addon, LookFinding, RawKernelLook, RawLookWatch } from '../addon.js'
import { encodeVirtualServerKeys } from '../ipvs/encode.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { type WaitingSocket, Watches } from '../watches.js'

/** Kernel state that is cheap to read again and again: legacy x_tables of some families, virtual servers, and sets. */
export interface KernelLook {
  /**
   * Opaque bytes. Equal bytes: no entry was added to or removed from the legacy tables nat, mangle and filter of its families, and no
   * IPv4 virtual server (the kernel counts no others). A call during another call gets the result of that call.
   * Throws KernelError only if no socket can be opened.
   * NB: reads all three tables of each family, which creates absent ones. Without families it reads only virtual servers.
   */
  take(): Promise<Uint8Array>
  /** Watches also the sets with this name prefix. Throws KernelError if no socket can be opened. */
  watch(setPrefix: string): LookWatch
  /** Watches only the tables nat and filter. Throws KernelError if no socket can be opened. */
  watchTables(): LookWatch
  /** Waits for the call in flight, and closes the watches; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}

/** How often a watch looks. */
export interface LookPace {
  /** Milliseconds between two looks. */
  readonly periodMs: number
  /** A call of `next` without a finding ends after this time in milliseconds, so that its caller can choose another sample. */
  readonly longestWaitMs: number
  /** Reading the sets takes at most 1/`setsShare` of the time, because the kernel counts their entries one by one. */
  readonly setsShare: number
}

/** The pace of the agent. */
export const lookPace: LookPace = { periodMs: 1000, longestWaitMs: 10_000, setsShare: 500 }

/** Looks once a second while a call waits. The call resolves only for a change or after its time limit. */
export interface LookWatch {
  /**
   * Resolves when a look finds a change, without a change after some seconds, and with undefined after `close()`. Large sets, which take
   * time to count, are read every few seconds. Each look is compared with the previous one, also across calls; the virtual servers only
   * if `sample` has the same ones in the same order. This process's own use of the lock does not count. A lock file that cannot be
   * watched reports no change.
   */
  next(sample: readonly VirtualServerKey[]): Promise<LookFinding | undefined>
  close(): Promise<void>
}

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
