// Route, address and link records: operations to packed records, cursors over dumps, events.
import { familyOf, writeAddress, type IpAddress, type IpFamily } from '../address.js'
import type { Link, LinkEvent } from './links.js'
import {
  addressFamily,
  addressLayout,
  eventLayout,
  familyFromByte,
  hostPrefixLength,
  linkLayout,
  RecordTable,
  routeLayout,
  type RecordBuffer,
} from './records.js'
import type { InterfaceAddress, LocalRoute } from './routes.js'

/** Numbers of route::Op. */
export const routeOpNumber = { none: 0, add: 1, replace: 2, remove: 3 } as const

/** linux/rtnetlink.h */
const routeTableLocal = 255
const routeTypeLocal = 2
const routeScopeHost = 254
/** IFF_UP of linux/if.h */
export const linkIsUp = 1

const eventKind = { link: 1, address: 2 } as const

/** Writes a local route into a zeroed RouteRecord at byte `at`. */
export function writeRoute(buffer: RecordBuffer, at: number, route: LocalRoute, op: number): void {
  const { bytes, view } = buffer
  const family = familyOf(route.address)
  writeAddress(route.address, bytes, at + routeLayout.destination)
  if (route.preferredSource !== undefined)
    writeAddress(route.preferredSource, bytes, at + routeLayout.preferredSource)
  view.setUint32(at + routeLayout.interfaceIndex, route.interfaceIndex, true)
  view.setUint32(at + routeLayout.table, routeTableLocal, true)
  bytes[at + routeLayout.op] = op
  bytes[at + routeLayout.family] = addressFamily[family]
  bytes[at + routeLayout.prefixLength] = hostPrefixLength(family)
  bytes[at + routeLayout.protocol] = route.protocol
  bytes[at + routeLayout.type] = routeTypeLocal
  bytes[at + routeLayout.scope] = routeScopeHost
}

/** Writes an interface address into a zeroed AddressRecord at byte `at`. */
export function writeInterfaceAddress(
  buffer: RecordBuffer,
  at: number,
  address: InterfaceAddress,
  op: number,
): void {
  writeAddress(address.address, buffer.bytes, at + addressLayout.address)
  buffer.view.setUint32(at + addressLayout.interfaceIndex, address.interfaceIndex, true)
  buffer.bytes[at + addressLayout.op] = op
  buffer.bytes[at + addressLayout.family] = addressFamily[familyOf(address.address)]
  buffer.bytes[at + addressLayout.prefixLength] = address.prefixLength
}

/** Host routes of Routes.dumpLocalRoutes(), by index. */
export class RouteCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, routeLayout)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, routeLayout.family))
  }

  address(index: number): IpAddress {
    return this.ip(index, routeLayout.destination, this.family(index))
  }

  /** undefined: none. */
  preferredSource(index: number): IpAddress | undefined {
    const source = this.ip(index, routeLayout.preferredSource, this.family(index))
    return source === '0.0.0.0' || source === '::' ? undefined : source
  }

  interfaceIndex(index: number): number {
    return this.u32(index, routeLayout.interfaceIndex)
  }

  protocol(index: number): number {
    return this.u8(index, routeLayout.protocol)
  }

  /** As an object. */
  route(index: number): LocalRoute {
    const preferredSource = this.preferredSource(index)
    return {
      address: this.address(index),
      interfaceIndex: this.interfaceIndex(index),
      ...(preferredSource === undefined ? {} : { preferredSource }),
      protocol: this.protocol(index),
    }
  }
}

/** Addresses of Routes.dumpAddresses(), by index. */
export class AddressCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, addressLayout)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, addressLayout.family))
  }

  address(index: number): IpAddress {
    return this.ip(index, addressLayout.address, this.family(index))
  }

  prefixLength(index: number): number {
    return this.u8(index, addressLayout.prefixLength)
  }

  interfaceIndex(index: number): number {
    return this.u32(index, addressLayout.interfaceIndex)
  }

  /** As an object. */
  interfaceAddress(index: number): InterfaceAddress {
    return {
      address: this.address(index),
      prefixLength: this.prefixLength(index),
      interfaceIndex: this.interfaceIndex(index),
    }
  }
}

class LinkCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, linkLayout)
  }

  link(index: number): Link {
    return {
      name: this.text(index, linkLayout.name),
      index: this.u32(index, linkLayout.index),
      kind: this.text(index, linkLayout.kind),
      isUp: (this.u32(index, linkLayout.flags) & linkIsUp) !== 0,
    }
  }
}

/** A node has a handful of links: objects. */
export function decodeLinks(bytes: Uint8Array): readonly Link[] {
  const cursor = new LinkCursor(bytes)
  return Array.from({ length: cursor.length }, (_, index) => cursor.link(index))
}

class EventCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, eventLayout)
  }

  event(index: number): LinkEvent {
    const kind = this.u8(index, eventLayout.kind)
    const change = this.u8(index, eventLayout.op) === routeOpNumber.remove ? 'remove' : 'add'
    const interfaceIndex = this.u32(index, eventLayout.interfaceIndex)
    if (kind === eventKind.link)
      return { kind: 'link', change, name: this.text(index, eventLayout.name), index: interfaceIndex }
    if (kind !== eventKind.address) return { kind: 'overrun' }
    const family = familyFromByte(this.u8(index, eventLayout.family))
    const address = this.ip(index, eventLayout.address, family)
    return { kind: 'address', change, index: interfaceIndex, family, address }
  }
}

export function decodeEvents(bytes: Uint8Array): readonly LinkEvent[] {
  const cursor = new EventCursor(bytes)
  return Array.from({ length: cursor.length }, (_, index) => cursor.event(index))
}
