// Encodes the model's table as the packed records of a dump.
import { writeAddress } from '../../src/address.js'
import {
  writeRealServerKey,
  writeRealServerSettings,
  writeVirtualServerKey,
  writeVirtualServerSettings,
} from '../../src/kernel/ipvs/encode.js'
import type {
  IpvsDump,
  RealServer,
  RealServerKey,
  VirtualServerKey,
  VirtualServerSettings,
} from '../../src/kernel/ipvs/ipvs.js'
import { type RecordBuffer, recordBuffer } from '../../src/kernel/records.js'
import { countersLayout, realServerLayout, virtualServerLayout } from '../../src/kernel/ipvs/layout.js'

export interface ModelVirtualServer {
  readonly key: VirtualServerKey
  settings: VirtualServerSettings
  readonly reals: Map<string, RealServer>
}

/** Counters of a real server. An absent counter is 0. */
export interface ModelTraffic {
  readonly activeConnections?: number
  readonly inactiveConnections?: number
  readonly inPackets?: number
  readonly outPackets?: number
  readonly inBytes?: number
  readonly outBytes?: number
}

/** Counters of the real servers of a dump. */
export type TrafficOf = (server: VirtualServerKey, real: RealServerKey) => ModelTraffic

const allFlags = 0xffffffff

function compareRealServers(a: RealServer, b: RealServer): number {
  const bytes = new Uint8Array(32)
  writeAddress(a.key.address, bytes, 0)
  writeAddress(b.key.address, bytes, 16)
  for (let i = 0; i < 16; i++) {
    const difference = (bytes[i] ?? 0) - (bytes[i + 16] ?? 0)
    if (difference !== 0) return difference
  }
  return a.key.port - b.key.port
}

/** The dump in the addon's form: real servers sorted by address bytes, then port. With `trafficOf` it has counters. */
export function encodeTable(
  servers: readonly ModelVirtualServer[],
  trafficOf: TrafficOf | undefined,
): IpvsDump {
  const realCount = servers.reduce((sum, server) => sum + server.reals.size, 0)
  const virtualServers = recordBuffer(servers.length * virtualServerLayout.size)
  const realServers = recordBuffer(realCount * realServerLayout.size)
  const counters = recordBuffer(trafficOf === undefined ? 0 : realCount * countersLayout.size)
  let firstReal = 0
  for (const [index, server] of servers.entries()) {
    const at = index * virtualServerLayout.size
    writeVirtualServerKey(virtualServers, at, server.key)
    writeVirtualServerSettings(virtualServers, at, server.settings, allFlags)
    virtualServers.view.setUint32(at + virtualServerLayout.firstReal, firstReal, true)
    virtualServers.view.setUint32(at + virtualServerLayout.realCount, server.reals.size, true)
    for (const real of [...server.reals.values()].toSorted(compareRealServers)) {
      writeRealServerKey(realServers, firstReal * realServerLayout.size, real.key)
      writeRealServerSettings(realServers, firstReal * realServerLayout.size, real.settings)
      if (trafficOf !== undefined)
        writeCounters(counters, firstReal * countersLayout.size, trafficOf(server.key, real.key))
      firstReal++
    }
  }
  const tables = { virtualServers: virtualServers.bytes, realServers: realServers.bytes }
  if (trafficOf === undefined) return tables
  return {
    ...tables,
    virtualServerCounters: new Uint8Array(servers.length * countersLayout.size),
    realServerCounters: counters.bytes,
  }
}

function writeCounters({ view }: RecordBuffer, at: number, traffic: ModelTraffic): void {
  view.setUint32(at + countersLayout.activeConnections, traffic.activeConnections ?? 0, true)
  view.setUint32(at + countersLayout.inactiveConnections, traffic.inactiveConnections ?? 0, true)
  view.setUint32(at + countersLayout.inPackets, traffic.inPackets ?? 0, true)
  view.setUint32(at + countersLayout.outPackets, traffic.outPackets ?? 0, true)
  view.setUint32(at + countersLayout.inBytes, traffic.inBytes ?? 0, true)
  view.setUint32(at + countersLayout.outBytes, traffic.outBytes ?? 0, true)
}
