import type { IpFamily } from '../address.js'
import type { Addon, RawKernelLook } from './addon.js'
import type { KernelLook } from './kernel-look.js'
import { addressFamily } from './records.js'
import { RequestQueue } from './request-queue.js'

/** Looks at the kernel that we run on. */
export class RealKernelLook implements KernelLook {
  readonly #queue: RequestQueue<RawKernelLook>

  constructor(addon: () => Addon, family: IpFamily) {
    this.#queue = new RequestQueue(() => new (addon().KernelLook)(addressFamily[family]), 'xtables')
  }

  take(): Promise<Uint8Array> {
    return this.#queue.run((look) => look.take())
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}
