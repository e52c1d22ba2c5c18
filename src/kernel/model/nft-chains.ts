import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { NftChain, NftChains } from '../nft-chains.js'

/** NftChains in memory: tests say which chains there are. */
export class ModelNftChains implements NftChains {
  readonly chains: Record<IpFamily, readonly NftChain[]> = { ipv4: [], ipv6: [] }
  #isClosed = false

  async list(family: IpFamily): Promise<readonly NftChain[]> {
    const { EBADF: errno } = constants.errno
    if (this.#isClosed)
      throw new KernelError({ errno, subsystem: 'nftables', operation: 'use a closed socket', family })
    return this.chains[family]
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }
}
