// Dumped routes and addresses, compared with the usual ones without an object for each.
import { type IpAddress, isLinkLocal, writeAddress, type IpFamily } from '../../address.js'
import {
  AddressCursor,
  RouteCursor,
  formerRouteProtocol,
  hostPrefixLength,
  routeLayout,
  viaductRouteProtocol,
} from '../../kernel/index.js'

/** The properties of one of our routes on lo, without its address. */
export interface RouteState {
  readonly protocol: number
  /** undefined: the kernel chooses the source. */
  readonly preferredSource: IpAddress | undefined
}

/** Host routes of a dump, by index. */
export class PackedRoutes {
  readonly length: number
  readonly #cursor: RouteCursor
  readonly #bytes: Buffer
  readonly #usual: RouteState
  readonly #usualSource = Buffer.alloc(16)

  /** Records equal to `usual` share that object. */
  constructor(
    records: Uint8Array,
    usual: RouteState = { protocol: viaductRouteProtocol, preferredSource: undefined },
  ) {
    this.#cursor = new RouteCursor(records)
    this.#bytes = bufferOver(records)
    this.length = this.#cursor.length
    this.#usual = usual
    if (usual.preferredSource !== undefined) writeAddress(usual.preferredSource, this.#usualSource, 0)
  }

  id(index: number): PackedAddress {
    const offset = index * routeLayout.size + routeLayout.destination
    return packedAddressAt(this.#bytes, offset, this.#cursor.family(index))
  }

  address(index: number): IpAddress {
    return this.#cursor.address(index)
  }

  protocol(index: number): number {
    return this.#cursor.protocol(index)
  }

  /**
   * Whether the route has the properties of ours: our present or former protocol, the device `loopbackIndex`, this metric, and the usual
   * shape. Another program may still have made it.
   */
  isLikeOurs(index: number, loopbackIndex: number, metric?: number): boolean {
    const protocol = this.#cursor.protocol(index)
    return (
      (protocol === viaductRouteProtocol || protocol === formerRouteProtocol) &&
      this.#cursor.interfaceIndex(index) === loopbackIndex &&
      this.#cursor.hasUsualShape(index, metric)
    )
  }

  interfaceIndex(index: number): number {
    return this.#cursor.interfaceIndex(index)
  }

  state(index: number): RouteState {
    const offset = index * routeLayout.size + routeLayout.preferredSource
    const isUsualSource = this.#bytes.compare(this.#usualSource, 0, 16, offset, offset + 16) === 0
    const protocol = this.#cursor.protocol(index)
    if (isUsualSource && protocol === this.#usual.protocol) return this.#usual
    return { protocol, preferredSource: this.#cursor.preferredSource(index) }
  }
}

/** The addresses of a dump that may be VIPs: single ones, not link-local, which the kernel itself gives to interfaces. */
export function hostAddresses(records: Uint8Array): readonly IpAddress[] {
  const cursor = new AddressCursor(records)
  const addresses: IpAddress[] = []
  for (let index = 0; index < cursor.length; index++) {
    if (cursor.prefixLength(index) !== hostPrefixLength(cursor.family(index))) continue
    const address = cursor.address(index)
    if (!isLinkLocal(address)) addresses.push(address)
  }
  return addresses
}

/** Whether a dump of addresses has this one, with any prefix, on an interface other than `but`. */
export function includesAddress(records: Uint8Array, wanted: IpAddress, but: number | undefined): boolean {
  const cursor = new AddressCursor(records)
  for (let index = 0; index < cursor.length; index++) {
    if (cursor.address(index) === wanted && cursor.interfaceIndex(index) !== but) return true
  }
  return false
}

/** Identity of an address in a Map, from text and from packed bytes alike: a number for IPv4, 16 characters for IPv6. */
export type PackedAddress = (number | string) & { readonly brand: 'PackedAddress' }

const scratch = Buffer.alloc(16)

export function packedAddressOf(address: IpAddress): PackedAddress {
  writeAddress(address, scratch, 0)
  return packedAddressAt(scratch, 0, address.includes(':') ? 'ipv6' : 'ipv4')
}

export function packedAddressAt(bytes: Buffer, offset: number, family: IpFamily): PackedAddress {
  const id = family === 'ipv4' ? bytes.readUInt32BE(offset) : bytes.toString('latin1', offset, offset + 16)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return id as PackedAddress
}

export function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
