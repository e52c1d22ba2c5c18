import type { IpFamily } from '../address.js'
import type { Addon, RawKernelLook } from './addon.js'
import type { KernelLook } from './kernel-look.js'
import { addressFamily } from './records.js'
import { RequestQueue } from './request-queue.js'

/** Looks at the kernel that we run on. */
export class RealKernelLook implements KernelLook {
  readonly #queue: RequestQueue<RawKernelLook>
  /** The answer that is on its way. */
  #flight: Promise<Uint8Array> | undefined

  constructor(addon: () => Addon, families: readonly IpFamily[]) {
    this.#queue = new RequestQueue(
      () => new (addon().KernelLook)(Uint8Array.from(families, (family) => addressFamily[family])),
      'xtables',
    )
  }

  take(): Promise<Uint8Array> {
    this.#flight ??= this.#queue
      .run((look) => look.take())
      .finally(() => {
        this.#flight = undefined
      })
    return this.#flight
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}
