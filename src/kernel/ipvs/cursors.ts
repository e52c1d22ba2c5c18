// Cursors over a packed IPVS dump: fields by index, without an object per record.
import type { IpAddress, IpFamily } from '../../address.js'
import { forwardings, protocolOf, tunnelTypes } from './encode.js'
import type {
  Protocol,
  RealServerKey,
  RealServerSettings,
  VirtualServerKey,
  VirtualServerSettings,
} from './servers.js'
import { countersLayout, realServerLayout as real, virtualServerLayout as virtual } from './layout.js'
import { familyFromByte, RecordTable } from '../records.js'

/** Virtual servers of a dump, by index. Number fields create no object; address() and scheduler() create a string. */
export class VirtualServerCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, virtual)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, virtual.family))
  }

  /** 0: keyed by protocol, address and port. */
  mark(index: number): number {
    return this.u32(index, virtual.mark)
  }

  protocol(index: number): Protocol {
    return protocolOf(this.u8(index, virtual.protocol))
  }

  address(index: number): IpAddress {
    return this.ip(index, virtual.address, this.family(index))
  }

  port(index: number): number {
    return this.u16(index, virtual.port)
  }

  scheduler(index: number): string {
    return this.text(index, virtual.scheduler)
  }

  flags(index: number): number {
    return this.u32(index, virtual.flags)
  }

  timeoutSeconds(index: number): number {
    return this.u32(index, virtual.timeoutSeconds)
  }

  netmaskLength(index: number): number {
    return this.u8(index, virtual.netmaskLength)
  }

  /** Index of the first real server in the dump's other table. */
  firstReal(index: number): number {
    return this.u32(index, virtual.firstReal)
  }

  realCount(index: number): number {
    return this.u32(index, virtual.realCount)
  }

  /** As an object. */
  key(index: number): VirtualServerKey {
    const family = this.family(index)
    const mark = this.mark(index)
    if (mark !== 0) return { family, mark }
    return { family, protocol: this.protocol(index), address: this.address(index), port: this.port(index) }
  }

  /** As an object. */
  settings(index: number): VirtualServerSettings {
    return {
      scheduler: this.scheduler(index),
      flags: this.flags(index),
      timeoutSeconds: this.timeoutSeconds(index),
      netmaskLength: this.netmaskLength(index),
    }
  }
}

/** Real servers of a dump, by index. */
export class RealServerCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, real)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, real.family))
  }

  address(index: number): IpAddress {
    return this.ip(index, real.address, this.family(index))
  }

  port(index: number): number {
    return this.u16(index, real.port)
  }

  weight(index: number): number {
    return this.i32(index, real.weight)
  }

  forwarding(index: number): RealServerSettings['forwarding'] {
    return forwardings[this.u8(index, real.forwarding) & 3] ?? 'masquerade'
  }

  upperThreshold(index: number): number {
    return this.u32(index, real.upperThreshold)
  }

  lowerThreshold(index: number): number {
    return this.u32(index, real.lowerThreshold)
  }

  /** As an object. */
  key(index: number): RealServerKey {
    return { address: this.address(index), port: this.port(index) }
  }

  /** As an object; `tunnel` is absent for plain ipip. */
  settings(index: number): RealServerSettings {
    const forwarding = this.forwarding(index)
    const settings = {
      weight: this.weight(index),
      forwarding,
      upperThreshold: this.upperThreshold(index),
      lowerThreshold: this.lowerThreshold(index),
    }
    if (forwarding !== 'tunnel') return settings
    const type = tunnelTypes[this.u8(index, real.tunnelType)] ?? 'ipip'
    const port = this.u16(index, real.tunnelPort)
    const flags = this.u16(index, real.tunnelFlags)
    return type === 'ipip' && port === 0 && flags === 0
      ? settings
      : { ...settings, tunnel: { type, port, flags } }
  }
}

/** Counters of a dump, by index of the server. */
export class CountersCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, countersLayout)
  }

  connections(index: number): number {
    return this.u64(index, countersLayout.connections)
  }

  inPackets(index: number): number {
    return this.u64(index, countersLayout.inPackets)
  }

  outPackets(index: number): number {
    return this.u64(index, countersLayout.outPackets)
  }

  inBytes(index: number): number {
    return this.u64(index, countersLayout.inBytes)
  }

  outBytes(index: number): number {
    return this.u64(index, countersLayout.outBytes)
  }

  /** Real servers only, like the next two; 0 for a virtual server. */
  activeConnections(index: number): number {
    return this.u32(index, countersLayout.activeConnections)
  }

  inactiveConnections(index: number): number {
    return this.u32(index, countersLayout.inactiveConnections)
  }

  persistentConnections(index: number): number {
    return this.u32(index, countersLayout.persistentConnections)
  }
}
