import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Addon, RawNftSocket } from '../addon.js'
import { isWithoutNftables } from './absences.js'
import type { NftChain, NftChains } from './nft-chains.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'

/** The errors of `isWithoutNftables` for a transaction, and the error for an absent table. */
const absencesOfTable: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EOPNOTSUPP', 'ENOENT'])

/** The nf_tables of the running kernel. */
export class RealNftChains implements NftChains {
  readonly #queue: RequestQueue<RawNftSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#queue = new RequestQueue(() => new (addon().NftSocket)(), 'nftables', calls)
  }

  async list(family: IpFamily): Promise<readonly NftChain[]> {
    const names = await orRefusal(
      () => this.#queue.run((socket) => socket.listChains(addressFamily[family]), { family }),
      isWithoutNftables,
    )
    return names instanceof KernelError ? [] : decodeChains(names)
  }

  async discardTable(family: IpFamily, table: string): Promise<boolean> {
    const subject = { family, object: table }
    const absence = await orRefusal(
      () => this.#queue.run((socket) => socket.deleteTable(addressFamily[family], table), subject),
      ({ code }) => absencesOfTable.has(code),
    )
    return !(absence instanceof KernelError)
  }

  async loadXtables(family: IpFamily): Promise<void> {
    await orRefusal(
      () => this.#queue.run((socket) => socket.loadXtables(addressFamily[family]), { family }),
      (error) => isWithoutNftables(error) || error.code === 'ENOENT',
    )
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}

/** Decodes names: table and chain alternately, NUL-ended. */
function decodeChains(names: Uint8Array): readonly NftChain[] {
  const texts = new TextDecoder().decode(names).split('\0')
  const chains: NftChain[] = []
  for (let index = 0; index + 1 < texts.length; index += 2)
    chains.push({ table: texts[index] ?? '', chain: texts[index + 1] ?? '' })
  return chains
}
