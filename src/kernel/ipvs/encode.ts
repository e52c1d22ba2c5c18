// Packs virtual servers and real servers into records.
import { writeAddress } from '../../address.js'
import type {
  Protocol,
  RealServerKey,
  RealServerSettings,
  TunnelType,
  VirtualServerKey,
  VirtualServerSettings,
} from './servers.js'
import { realServerLayout as real, virtualServerLayout as virtual } from './layout.js'
import { addressFamily, recordBuffer, type RecordBuffer, writeText } from '../records.js'

/** IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP. */
export const protocolNumber = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<Protocol, number>

/** The protocol of a number of a record. */
export function protocolOf(number: number): Protocol {
  return number === protocolNumber.udp ? 'udp' : number === protocolNumber.sctp ? 'sctp' : 'tcp'
}

/** By IP_VS_CONN_F_* of linux/ip_vs.h. */
export const forwardings = [
  'masquerade',
  'local',
  'tunnel',
  'direct',
] as const satisfies readonly RealServerSettings['forwarding'][]
/** By IP_VS_CONN_F_TUNNEL_TYPE_*. */
export const tunnelTypes = ['ipip', 'gue', 'gre'] as const satisfies readonly TunnelType[]

/** Writes the identity into a zeroed VirtualServerRecord at byte `at`. */
export function writeVirtualServerKey(buffer: RecordBuffer, at: number, key: VirtualServerKey): void {
  const { bytes, view } = buffer
  bytes[at + virtual.family] = addressFamily[key.family]
  if ('mark' in key) {
    view.setUint32(at + virtual.mark, key.mark, true)
    return
  }
  bytes[at + virtual.protocol] = protocolNumber[key.protocol]
  bytes[at + virtual.port] = key.port
  bytes[at + virtual.port + 1] = key.port >>> 8
  writeAddress(key.address, bytes, at + virtual.address)
}

/** VirtualServerRecords that hold their keys only. */
export function encodeVirtualServerKeys(keys: readonly VirtualServerKey[]): Uint8Array {
  const records = recordBuffer(keys.length * virtual.size)
  for (const [index, key] of keys.entries()) writeVirtualServerKey(records, index * virtual.size, key)
  return records.bytes
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
  const { bytes } = buffer
  bytes[at + real.port] = key.port
  bytes[at + real.port + 1] = key.port >>> 8
  bytes[at + real.family] = addressFamily[writeAddress(key.address, bytes, at + real.address)]
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
