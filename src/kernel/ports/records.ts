// Packs operations on ports into records, and reads records of ports.
import { type IpAddress, writeAddress } from '../../address.js'
import { protocolNumber, protocolOf } from '../ipvs/encode.js'
import { addressFamily, familyFromByte, recordBuffer, RecordTable } from '../records.js'
import { inheritedLayout, listenerLayout, opNumber, portLayout } from './layout.js'
import type { Listener, PortOp, PortPlace, WatchedPort } from './ports.js'

/** A descriptor of the service manager's store that this process inherited. */
export interface InheritedSocket {
  readonly fd: number
  /** The number in its name. */
  readonly number: number
}

export function encodePortOps(ops: readonly PortOp[]): Uint8Array {
  const { bytes, view } = recordBuffer(ops.length * portLayout.size)
  for (const [index, { op, place }] of ops.entries()) {
    const at = index * portLayout.size
    if (place.address !== undefined) writeAddress(place.address, bytes, at + portLayout.address)
    view.setUint16(at + portLayout.port, place.port, true)
    bytes[at + portLayout.family] = addressFamily[place.family]
    bytes[at + portLayout.protocol] = protocolNumber[place.protocol]
    bytes[at + portLayout.op] = opNumber[op]
  }
  return bytes
}

/** Records of which only protocol and port count. */
export function encodeWatchedPorts(ports: readonly WatchedPort[]): Uint8Array {
  const { bytes, view } = recordBuffer(ports.length * portLayout.size)
  for (const [index, { protocol, port }] of ports.entries()) {
    view.setUint16(index * portLayout.size + portLayout.port, port, true)
    bytes[index * portLayout.size + portLayout.protocol] = protocolNumber[protocol]
  }
  return bytes
}

export function encodeInherited(sockets: readonly InheritedSocket[]): Uint8Array {
  const { bytes, view } = recordBuffer(sockets.length * inheritedLayout.size)
  for (const [index, { fd, number }] of sockets.entries()) {
    view.setUint32(index * inheritedLayout.size + inheritedLayout.fd, fd, true)
    view.setUint32(index * inheritedLayout.size + inheritedLayout.number, number, true)
  }
  return bytes
}

/** The places of PortRecords. */
export function decodePlaces(bytes: Uint8Array): readonly PortPlace[] {
  const table = new PortTable(bytes, portLayout)
  return Array.from({ length: table.length }, (_, index) => table.place(index))
}

/** ListenerRecords as objects. */
export function decodeListeners(bytes: Uint8Array): readonly Listener[] {
  const table = new ListenerTable(bytes, listenerLayout)
  return Array.from({ length: table.length }, (_, index) => table.listener(index))
}

/** Zero stands for every address. */
function orEvery(address: IpAddress): IpAddress | undefined {
  return address === '0.0.0.0' || address === '::' ? undefined : address
}

class PortTable extends RecordTable {
  place(index: number): PortPlace {
    const family = familyFromByte(this.u8(index, portLayout.family))
    return {
      family,
      protocol: protocolOf(this.u8(index, portLayout.protocol)),
      address: orEvery(this.ip(index, portLayout.address, family)),
      port: this.u16(index, portLayout.port),
    }
  }
}

class ListenerTable extends RecordTable {
  listener(index: number): Listener {
    const pid = this.u32(index, listenerLayout.pid)
    const family = familyFromByte(this.u8(index, listenerLayout.family))
    return {
      protocol: protocolOf(this.u8(index, listenerLayout.protocol)),
      address: orEvery(this.ip(index, listenerLayout.address, family)),
      port: this.u16(index, listenerLayout.port),
      uid: this.u32(index, listenerLayout.uid),
      process: pid === 0 ? undefined : { pid, name: this.text(index, listenerLayout.name) },
      isHeld: this.u8(index, listenerLayout.isHeld) !== 0,
      isOwn: this.u8(index, listenerLayout.isOwn) !== 0,
    }
  }
}
