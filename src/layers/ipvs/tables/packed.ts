// Virtual servers in the bytes of a dump. A reconcile compares real servers as bytes, and makes objects only for differences (an
// object per kernel object costs 500-900 ns).
import {
  type IpvsDump,
  isSameSettings,
  RealServerList,
  VirtualServerCursor,
  type VirtualServerKey,
  virtualServerLayout,
} from '../../../kernel/index.js'
import { bufferOver, type PackedAddress, packedAddressAt, packedAddressOf } from '../../vips/index.js'
import type { ServerState } from '../compile/desired.js'

/** Identity of a virtual server in a Map; it is never shown. */
export type PackedId = (number | string) & { readonly brand: 'PackedId' }

/** Protocols in 2 bits. With 8-bit protocol numbers an IPv4 identity would have 56 bits, too many for an exact double. */
const shortProtocol = { tcp: 0, udp: 1, sctp: 2 } as const

export function packedIdOf(key: VirtualServerKey): PackedId {
  if ('mark' in key) return markId(key.mark)
  return joinId(packedAddressOf(key.address), key.port, shortProtocol[key.protocol])
}

/** An IPv6 address never has so few characters, and an IPv4 identity is never a text. */
function markId(mark: number): PackedId {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return `mark ${mark}` as PackedId
}

/** 32 + 16 + 2 bits fit a double exactly. */
function joinId(address: PackedAddress, port: number, protocol: number): PackedId {
  const rest = port * 4 + protocol
  const id = typeof address === 'number' ? address * 2 ** 18 + rest : `${address}${rest}`
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return id as PackedId
}

/** One family's dump, read by index. */
export class PackedDump {
  readonly length: number
  readonly #servers: VirtualServerCursor
  readonly #serverBytes: Buffer
  readonly #realBytes: Buffer

  constructor(dump: IpvsDump) {
    this.#servers = new VirtualServerCursor(dump.virtualServers)
    this.#serverBytes = bufferOver(dump.virtualServers)
    this.#realBytes = bufferOver(dump.realServers)
    this.length = this.#servers.length
  }

  id(index: number): PackedId {
    const mark = this.#servers.mark(index)
    if (mark !== 0) return markId(mark)
    const offset = index * virtualServerLayout.size + virtualServerLayout.address
    const address = packedAddressAt(this.#serverBytes, offset, this.#servers.family(index))
    return joinId(address, this.#servers.port(index), shortProtocol[this.#servers.protocol(index)])
  }

  key(index: number): VirtualServerKey {
    const family = this.#servers.family(index)
    const mark = this.#servers.mark(index)
    if (mark !== 0) return { family, mark }
    return {
      family,
      protocol: this.#servers.protocol(index),
      address: this.#servers.address(index),
      port: this.#servers.port(index),
    }
  }

  state(index: number): ServerState {
    const [first, count] = [this.#servers.firstReal(index), this.#servers.realCount(index)]
    const realServers = RealServerList.fromDump(this.#realBytes, first, count)
    return { settings: this.#servers.settings(index), realServers }
  }

  /** The index of each virtual server. */
  get places(): ReadonlyMap<PackedId, number> {
    return new Map(Array.from({ length: this.length }, (_, index) => [this.id(index), index]))
  }

  /** The record of the first real server of the virtual server. */
  firstReal(index: number): number {
    return this.#servers.firstReal(index)
  }

  /** Whether the kernel has exactly this state for the virtual server. Its identity is not compared. */
  equals(index: number, { settings, realServers }: ServerState): boolean {
    if (this.#servers.realCount(index) !== realServers.length) return false
    return (
      isSameSettings(this.#servers.settings(index), settings) &&
      realServers.isAt(this.#realBytes, this.#servers.firstReal(index))
    )
  }
}
