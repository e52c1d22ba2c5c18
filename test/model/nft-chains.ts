import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import type { NftChain, NftChains } from '../../src/kernel/nftables/nft-chains.js'
import { ModelNftNamespace } from './nft-objects.js'

/**
 * NftChains in memory: the chains of the namespace's tables, and those that tests set. A table of these exists while it has a
 * chain.
 */
export class ModelNftChains implements NftChains {
  readonly chains: Record<IpFamily, readonly NftChain[]> = { ipv4: [], ipv6: [] }
  /** The effect of a request for the modules of the legacy tables. */
  onLoadXtables: (family: IpFamily) => void = () => {}
  readonly #namespace: ModelNftNamespace
  readonly #port: number
  #isClosed = false

  constructor(namespace = new ModelNftNamespace()) {
    this.#namespace = namespace
    this.#port = namespace.takePort()
  }

  async list(family: IpFamily): Promise<readonly NftChain[]> {
    this.#refuseClosed(family)
    const tables = [...this.#namespace.tables[family]]
    const found = tables.flatMap(([table, { chains }]) =>
      [...chains.keys()].map((chain) => ({ table, chain })),
    )
    return [...this.chains[family], ...found]
  }

  async discardTable(family: IpFamily, table: string): Promise<boolean> {
    this.#refuseClosed(family)
    const others = this.chains[family].filter((chain) => chain.table !== table)
    const isThere = others.length < this.chains[family].length
    this.chains[family] = others
    return this.#namespace.discardTable(family, table, this.#port) || isThere
  }

  async loadXtables(family: IpFamily): Promise<void> {
    this.#refuseClosed(family)
    this.onLoadXtables(family)
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  #refuseClosed(family: IpFamily): void {
    const { EBADF: errno } = constants.errno
    if (this.#isClosed)
      throw new KernelError({ errno, subsystem: 'nftables', operation: 'use a closed socket', family })
  }
}
