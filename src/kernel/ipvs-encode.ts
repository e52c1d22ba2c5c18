// Ipvs operations to packed records.
import { familyOf, writeAddress } from '../address.js'
import type {
  IpvsOp,
  Protocol,
  RealServerKey,
  RealServerSettings,
  TunnelType,
  VirtualServer,
  VirtualServerKey,
  VirtualServerSettings,
} from './ipvs.js'
import {
  addressFamily,
  opLayout,
  realServerLayout as real,
  recordBuffer,
  type RecordBuffer,
  virtualServerLayout as virtual,
  writeText,
} from './records.js'

/** Numbers of ipvs::Op. */
export const ipvsOpNumber = {
  'add-virtual-server': 1,
  'set-virtual-server': 2,
  'remove-virtual-server': 3,
  'add-real-server': 4,
  'set-real-server': 5,
  'remove-real-server': 6,
  'zero-virtual-server': 7,
} as const satisfies Record<IpvsOp['op'], number>

export const protocolNumber = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<Protocol, number>
/** By IP_VS_CONN_F_* of linux/ip_vs.h. */
export const forwardings = [
  'masquerade',
  'local',
  'tunnel',
  'direct',
] as const satisfies readonly RealServerSettings['forwarding'][]
/** By IP_VS_CONN_F_TUNNEL_TYPE_*. */
export const tunnelTypes = ['ipip', 'gue', 'gre'] as const satisfies readonly TunnelType[]

const allFlags = 0xffffffff

/** A batch as it crosses: operations by index into two tables. */
export interface EncodedIpvsBatch {
  readonly ops: Uint8Array
  readonly virtualServers: Uint8Array
  readonly realServers: Uint8Array
}

function isSameKey(a: VirtualServerKey, b: VirtualServerKey): boolean {
  if (a === b) return true
  if ('mark' in a) return 'mark' in b && a.mark === b.mark && a.family === b.family
  return (
    !('mark' in b) &&
    a.port === b.port &&
    a.protocol === b.protocol &&
    a.family === b.family &&
    a.address === b.address
  )
}

/** Appends records to tables that are large enough and zeroed. */
class IpvsBatchWriter {
  readonly #buffer: RecordBuffer
  /** Offsets of the next record of each table. */
  #op = 0
  #virtual: number
  #real: number
  readonly #virtualStart: number
  readonly #realStart: number
  /** Key of the last virtual server record, which the next operations may share. */
  #lastKey: VirtualServerKey | undefined

  constructor(opCount: number) {
    this.#virtualStart = this.#virtual = Math.ceil((opCount * opLayout.size) / 8) * 8
    this.#realStart = this.#real = this.#virtualStart + opCount * virtual.size
    this.#buffer = recordBuffer(this.#realStart + opCount * real.size)
  }

  write(op: IpvsOp): void {
    switch (op.op) {
      case 'add-virtual-server':
        this.#writeVirtualServer(op.server, allFlags)
        break
      case 'set-virtual-server':
        this.#writeVirtualServer(op.server, op.flagsMask ?? allFlags)
        break
      case 'remove-virtual-server':
      case 'zero-virtual-server':
        this.#shareVirtualServer(op.server)
        break
      case 'add-real-server':
      case 'set-real-server':
        this.#shareVirtualServer(op.server)
        this.#writeRealServerKey(op.real.key)
        this.#writeRealServerSettings(op.real.settings)
        break
      case 'remove-real-server':
        this.#shareVirtualServer(op.server)
        this.#writeRealServerKey(op.real)
        break
    }
    const index = (this.#virtual - this.#virtualStart) / virtual.size - 1
    this.#buffer.view.setUint32(this.#op + opLayout.virtualServer, index, true)
    if ('real' in op) {
      const realIndex = (this.#real - this.#realStart) / real.size - 1
      this.#buffer.view.setUint32(this.#op + opLayout.realServer, realIndex, true)
    }
    this.#buffer.bytes[this.#op + opLayout.op] = ipvsOpNumber[op.op]
    this.#op += opLayout.size
  }

  finish(): EncodedIpvsBatch {
    return {
      ops: this.#buffer.bytes.subarray(0, this.#op),
      virtualServers: this.#buffer.bytes.subarray(this.#virtualStart, this.#virtual),
      realServers: this.#buffer.bytes.subarray(this.#realStart, this.#real),
    }
  }

  #shareVirtualServer(key: VirtualServerKey): void {
    if (this.#lastKey === undefined || !isSameKey(this.#lastKey, key)) this.#writeVirtualServerKey(key)
  }

  #writeVirtualServer(server: VirtualServer, flagsMask: number): void {
    this.#writeVirtualServerKey(server.key)
    writeVirtualServerSettings(this.#buffer, this.#virtual - virtual.size, server.settings, flagsMask)
  }

  #writeVirtualServerKey(key: VirtualServerKey): void {
    writeVirtualServerKey(this.#buffer, this.#virtual, key)
    this.#virtual += virtual.size
    this.#lastKey = key
  }

  #writeRealServerKey(key: RealServerKey): void {
    writeRealServerKey(this.#buffer, this.#real, key)
    this.#real += real.size
  }

  #writeRealServerSettings(settings: RealServerSettings): void {
    writeRealServerSettings(this.#buffer, this.#real - real.size, settings)
  }
}

/** Writes the identity into a zeroed VirtualServerRecord at byte `at`. */
export function writeVirtualServerKey(buffer: RecordBuffer, at: number, key: VirtualServerKey): void {
  const { bytes, view } = buffer
  bytes[at + virtual.family] = addressFamily[key.family]
  if ('mark' in key) {
    view.setUint32(at + virtual.mark, key.mark, true)
    return
  }
  bytes[at + virtual.protocol] = protocolNumber[key.protocol]
  view.setUint16(at + virtual.port, key.port, true)
  writeAddress(key.address, bytes, at + virtual.address)
}

/** Writes the settings into a zeroed VirtualServerRecord at byte `at`. */
export function writeVirtualServerSettings(
  buffer: RecordBuffer,
  at: number,
  settings: VirtualServerSettings,
  flagsMask: number,
): void {
  const { bytes, view } = buffer
  writeText(bytes, at + virtual.scheduler, settings.scheduler)
  view.setUint32(at + virtual.flags, settings.flags, true)
  view.setUint32(at + virtual.flagsMask, flagsMask, true)
  view.setUint32(at + virtual.timeoutSeconds, settings.timeoutSeconds, true)
  bytes[at + virtual.netmaskLength] = settings.netmaskLength
}

/** Writes the identity into a zeroed RealServerRecord at byte `at`. */
export function writeRealServerKey(buffer: RecordBuffer, at: number, key: RealServerKey): void {
  buffer.bytes[at + real.family] = addressFamily[familyOf(key.address)]
  buffer.view.setUint16(at + real.port, key.port, true)
  writeAddress(key.address, buffer.bytes, at + real.address)
}

/** Writes the settings into a zeroed RealServerRecord at byte `at`. */
export function writeRealServerSettings(
  buffer: RecordBuffer,
  at: number,
  settings: RealServerSettings,
): void {
  const { bytes, view } = buffer
  view.setInt32(at + real.weight, settings.weight, true)
  view.setUint32(at + real.upperThreshold, settings.upperThreshold, true)
  view.setUint32(at + real.lowerThreshold, settings.lowerThreshold, true)
  bytes[at + real.forwarding] = forwardings.indexOf(settings.forwarding)
  if (settings.tunnel === undefined) return
  bytes[at + real.tunnelType] = tunnelTypes.indexOf(settings.tunnel.type)
  view.setUint16(at + real.tunnelPort, settings.tunnel.port, true)
  view.setUint16(at + real.tunnelFlags, settings.tunnel.flags, true)
}

/** Packs a batch; consecutive operations on one virtual server share its record. */
export function encodeIpvsBatch(ops: readonly IpvsOp[]): EncodedIpvsBatch {
  const writer = new IpvsBatchWriter(ops.length)
  for (const op of ops) writer.write(op)
  return writer.finish()
}
