// Packs frontends and backends of the conntrack clean-up into records.
import { type IpAddress, writeAddress } from '../../address.js'
import type { ConntrackFrontend } from './conntrack.js'
import { protocolNumber } from '../ipvs/encode.js'
import { addressLayout, backendLayout, frontendLayout } from './layout.js'
import { recordBuffer } from '../records.js'

/** Frontends refer to their backends by set number. */
export interface EncodedFrontends {
  readonly frontends: Uint8Array
  readonly backends: Uint8Array
}

/** Frontends with the same array of backends share the records of the backends. */
export function encodeFrontends(frontends: readonly ConntrackFrontend[]): EncodedFrontends {
  const sets = new Map<ConntrackFrontend['backends'], number>()
  const buffer = recordBuffer(frontends.length * frontendLayout.size)
  for (const [index, { protocol, address, port, backends }] of frontends.entries()) {
    const set = sets.get(backends) ?? sets.size
    sets.set(backends, set)
    const at = index * frontendLayout.size
    if (address !== undefined) writeAddress(address, buffer.bytes, at + frontendLayout.address)
    buffer.view.setUint32(at + frontendLayout.backendSet, set, true)
    buffer.view.setUint16(at + frontendLayout.port, port, true)
    buffer.bytes[at + frontendLayout.protocol] = protocolNumber[protocol]
    buffer.bytes[at + frontendLayout.isNodePort] = address === undefined ? 1 : 0
  }
  return { frontends: buffer.bytes, backends: encodeBackends(sets) }
}

/** One record for each address, in the same order. */
export function encodeAddresses(addresses: readonly IpAddress[]): Uint8Array {
  const { bytes } = recordBuffer(addresses.length * addressLayout.size)
  for (const [index, address] of addresses.entries())
    writeAddress(address, bytes, index * addressLayout.size + addressLayout.address)
  return bytes
}

function encodeBackends(sets: ReadonlyMap<ConntrackFrontend['backends'], number>): Uint8Array {
  let count = 0
  for (const backends of sets.keys()) count += backends.length
  const buffer = recordBuffer(count * backendLayout.size)
  let at = 0
  for (const [backends, set] of sets) {
    for (const { address, port } of backends) {
      writeAddress(address, buffer.bytes, at + backendLayout.address)
      buffer.view.setUint32(at + backendLayout.backendSet, set, true)
      buffer.view.setUint16(at + backendLayout.port, port, true)
      at += backendLayout.size
    }
  }
  return buffer.bytes
}
