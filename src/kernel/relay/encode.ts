// Packs operations and settings of the relay into records.
import { type Cidr, familyOf, type IpAddress, writeAddress } from '../../address.js'
import { BugError } from '../../errors.js'
import { protocolNumber } from '../ipvs/encode.js'
import { addressFamily, hostPrefixLength, recordBuffer, type RecordBuffer, writeText } from '../records.js'
import {
  endpointLayout,
  interfaceLayout,
  listenerLayout,
  networkLayout,
  opLayout,
  opNumber,
  serviceLayout,
  verdictNumber,
} from './layout.js'
import type { RelayAddress, RelayEndpoint, RelayListener, RelayOp, RelayService } from './relay.js'

/** A packed batch: operations refer to services and listeners by index, services to ranges of endpoints and source ranges. */
interface EncodedRelayBatch {
  readonly ops: Uint8Array
  readonly services: Uint8Array
  readonly listeners: Uint8Array
  readonly endpoints: Uint8Array
  readonly ranges: Uint8Array
}

/** In the order of the records. */
function endpointLists(service: RelayService): readonly (readonly RelayEndpoint[])[] {
  return [service.clusterEndpoints, service.localEndpoints, service.flowEndpoints]
}

/** The sizes of the tables of a batch. */
function countRecords(ops: readonly RelayOp[]): {
  readonly services: number
  readonly endpoints: number
  readonly ranges: number
} {
  let services = 0
  let endpoints = 0
  let ranges = 0
  for (const op of ops) {
    if (!('listener' in op)) services++
    if (op.op !== 'set-service') continue
    for (const list of endpointLists(op.service)) endpoints += list.length
    ranges += op.service.sourceRanges.length
  }
  return { services, endpoints, ranges }
}

/** Packs networks into NetworkRecords. */
export function encodeNetworks(networks: readonly Cidr[]): Uint8Array {
  const buffer = recordBuffer(networks.length * networkLayout.size)
  for (const [index, network] of networks.entries()) writeNetwork(buffer, index, network)
  return buffer.bytes
}

/** Packs addresses into NetworkRecords of one address each. */
export function encodeAddresses(addresses: readonly IpAddress[]): Uint8Array {
  const networks = addresses.map((address): Cidr => {
    const family = familyOf(address)
    return { address, family, prefixLength: hostPrefixLength(family) }
  })
  return encodeNetworks(networks)
}

/** Packs interface names into InterfaceRecords. Throws BugError for a name of more than 15 characters. */
export function encodeInterfaces(names: readonly string[]): Uint8Array {
  const { bytes } = recordBuffer(names.length * interfaceLayout.size)
  for (const [index, name] of names.entries())
    writeText(bytes, index * interfaceLayout.size + interfaceLayout.name, name)
  return bytes
}

function writeNetwork({ bytes }: RecordBuffer, index: number, { address, family, prefixLength }: Cidr): void {
  const at = index * networkLayout.size
  writeAddress(address, bytes, at + networkLayout.address)
  bytes[at + networkLayout.family] = addressFamily[family]
  bytes[at + networkLayout.prefixLength] = prefixLength
}

/** Writes services with their endpoints and source ranges. */
class ServiceWriter {
  readonly services: RecordBuffer
  readonly endpoints: RecordBuffer
  readonly ranges: RecordBuffer
  #serviceCount = 0
  #endpointCount = 0
  #rangeCount = 0

  constructor(ops: readonly RelayOp[]) {
    const counts = countRecords(ops)
    this.services = recordBuffer(counts.services * serviceLayout.size)
    this.endpoints = recordBuffer(counts.endpoints * endpointLayout.size)
    this.ranges = recordBuffer(counts.ranges * networkLayout.size)
  }

  /** Returns the index of the record. */
  addId(id: number): number {
    if (!Number.isInteger(id) || id < 1 || id > 0xffffffff)
      throw new BugError(`${id} is not an id of a service of the relay`)
    this.services.view.setUint32(this.#serviceCount * serviceLayout.size + serviceLayout.id, id, true)
    return this.#serviceCount++
  }

  add(service: RelayService): number {
    const index = this.addId(service.id)
    const at = index * serviceLayout.size
    const { view } = this.services
    view.setUint32(at + serviceLayout.affinitySeconds, service.affinitySeconds ?? 0, true)
    view.setUint32(at + serviceLayout.firstEndpoint, this.#endpointCount, true)
    view.setUint32(at + serviceLayout.clusterCount, service.clusterEndpoints.length, true)
    view.setUint32(at + serviceLayout.localCount, service.localEndpoints.length, true)
    view.setUint32(at + serviceLayout.flowCount, service.flowEndpoints.length, true)
    view.setUint32(at + serviceLayout.firstRange, this.#rangeCount, true)
    view.setUint32(at + serviceLayout.rangeCount, service.sourceRanges.length, true)
    for (const list of endpointLists(service)) for (const endpoint of list) this.#addEndpoint(endpoint)
    for (const range of service.sourceRanges) writeNetwork(this.ranges, this.#rangeCount++, range)
    return index
  }

  #addEndpoint({ address, port }: RelayEndpoint): void {
    const { bytes, view } = this.endpoints
    const at = this.#endpointCount++ * endpointLayout.size
    bytes[at + endpointLayout.family] =
      addressFamily[writeAddress(address, bytes, at + endpointLayout.address)]
    view.setUint16(at + endpointLayout.port, port, true)
  }
}

/** Writes identities of listeners, and settings. */
class ListenerWriter {
  readonly buffer: RecordBuffer
  #count = 0

  constructor(capacity: number) {
    this.buffer = recordBuffer(capacity * listenerLayout.size)
  }

  /** Returns the index of the record. */
  addKey({ protocol, address, port }: RelayAddress): number {
    const { bytes, view } = this.buffer
    const at = this.#count * listenerLayout.size
    bytes[at + listenerLayout.family] =
      addressFamily[writeAddress(address, bytes, at + listenerLayout.address)]
    bytes[at + listenerLayout.protocol] = protocolNumber[protocol]
    view.setUint16(at + listenerLayout.port, port, true)
    return this.#count++
  }

  add(listener: RelayListener): number {
    const index = this.addKey(listener)
    const { bytes, view } = this.buffer
    const at = index * listenerLayout.size
    view.setUint32(at + listenerLayout.service, listener.service, true)
    bytes[at + listenerLayout.near] = verdictNumber[listener.near]
    bytes[at + listenerLayout.far] = verdictNumber[listener.far]
    bytes[at + listenerLayout.hasSourceRanges] = listener.hasSourceRanges ? 1 : 0
    return index
  }
}

function writeObject(op: RelayOp, services: ServiceWriter, listeners: ListenerWriter): number {
  switch (op.op) {
    case 'set-service':
      return services.add(op.service)
    case 'remove-service':
      return services.addId(op.id)
    case 'set-listener':
      return listeners.add(op.listener)
    case 'remove-listener':
      return listeners.addKey(op.listener)
  }
}

/** Throws BugError for an id that is not from 1 to 2^32 - 1. */
export function encodeRelayOps(ops: readonly RelayOp[]): EncodedRelayBatch {
  const records = recordBuffer(ops.length * opLayout.size)
  const services = new ServiceWriter(ops)
  const listeners = new ListenerWriter(ops.reduce((count, op) => count + ('listener' in op ? 1 : 0), 0))
  for (const [index, op] of ops.entries()) {
    const at = index * opLayout.size
    records.view.setUint32(at + opLayout.object, writeObject(op, services, listeners), true)
    records.bytes[at + opLayout.op] = opNumber[op.op]
  }
  return {
    ops: records.bytes,
    services: services.services.bytes,
    listeners: listeners.buffer.bytes,
    endpoints: services.endpoints.bytes,
    ranges: services.ranges.bytes,
  }
}
