import type { IpFamily } from '../../address.js'
import { closedError } from '../request-queue.js'
import type { KernelLook } from '../kernel-look.js'
import type { ModelIpvs } from './ipvs.js'
import type { ModelXtNamespace } from './xtables-table.js'

/** Looks at the tables and virtual servers of a model kernel. */
export class ModelKernelLook implements KernelLook {
  readonly #families: readonly IpFamily[]
  readonly #xtNamespace: ModelXtNamespace
  readonly #ipvs: ModelIpvs
  #isClosed = false

  constructor(
    families: readonly IpFamily[],
    kernel: { readonly xtNamespace: ModelXtNamespace; readonly ipvs: ModelIpvs },
  ) {
    this.#families = families
    this.#xtNamespace = kernel.xtNamespace
    this.#ipvs = kernel.ipvs
  }

  async take(): Promise<Uint8Array> {
    if (this.#isClosed) throw closedError('xtables')
    const tables = this.#families.flatMap((family) =>
      (['nat', 'mangle', 'filter'] as const).map((table) => this.#xtNamespace.table(family, table).info),
    )
    return Buffer.from([...tables, this.#ipvs.countIpv4()].join(' | '))
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }
}
