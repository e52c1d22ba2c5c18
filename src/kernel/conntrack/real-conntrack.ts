// The connection table of the running kernel: frontends and backends as records, and records of flows.
import { type IpAddress, type IpFamily, writeAddress } from '../../address.js'
import type { Addon, RawConntrackSocket } from '../addon.js'
import { addressFamily, recordBuffer, RecordTable } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { protocolNumber } from '../ipvs/encode.js'
import { BugError } from '../../errors.js'
import type { Protocol } from '../ipvs/ipvs.js'
import {
  type Conntrack,
  type ConntrackFlowCount,
  type ConntrackFlows,
  type ConntrackFrontend,
  type ConntrackOutcome,
  type ConntrackFlow,
  tcpStates,
} from './conntrack.js'
import { addressLayout, backendLayout, frontendLayout, flowCountLayout, flowLayout } from './layout.js'

/** The connection table of the running kernel. */
export class RealConntrack implements Conntrack {
  readonly #cleaning: RequestQueue<RawConntrackSocket>
  /** Another socket: a command that lists a large table must not delay a clean-up. */
  readonly #reading: RequestQueue<RawConntrackSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    const open = (): RawConntrackSocket => new (addon().ConntrackSocket)()
    this.#cleaning = new RequestQueue(open, 'conntrack', calls)
    this.#reading = new RequestQueue(open, 'conntrack', calls)
  }

  deleteStale(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<ConntrackOutcome> {
    const { frontends: asked, backends } = encodeFrontends(frontends)
    const addresses = encodeAddresses(nodePortAddresses)
    return this.#cleaning.run(
      async (socket) => {
        const cleaning = await socket.deleteStale(addressFamily[family], asked, backends, addresses)
        const { seen, isFiltered, deleted } = cleaning
        return { seen: isFiltered ? undefined : seen, deleted }
      },
      { family },
    )
  }

  listFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
    limit: number,
  ): Promise<ConntrackFlows> {
    const { frontends: asked } = encodeFrontends(frontends)
    const addresses = encodeAddresses(nodePortAddresses)
    return this.#reading.run(
      async (socket) => {
        const { flows, total } = await socket.listFlows(addressFamily[family], asked, addresses, limit)
        return { flows: decodeFlows(flows, family), total }
      },
      { family },
    )
  }

  countFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<Iterable<ConntrackFlowCount>> {
    const { frontends: asked } = encodeFrontends(frontends)
    const addresses = encodeAddresses(nodePortAddresses)
    return this.#reading.run(
      async (socket) =>
        decodeFlowCounts(await socket.countFlows(addressFamily[family], asked, addresses), family),
      { family },
    )
  }

  async close(): Promise<void> {
    await Promise.all([this.#cleaning.close(), this.#reading.close()])
  }
}

/** Frontends refer to their backends by set number. */
interface EncodedFrontends {
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

/** The flows of FlowRecords, in their order. */
function decodeFlows(records: Uint8Array, family: IpFamily): readonly ConntrackFlow[] {
  const table = new FlowTable(records, flowLayout)
  return Array.from({ length: table.length }, (_, index) => table.flow(index, family))
}

/** The counts of FlowCountRecords, in their order. */
function* decodeFlowCounts(records: Uint8Array, family: IpFamily): Generator<ConntrackFlowCount> {
  const table = new FlowCountTable(records, flowCountLayout)
  for (let index = 0; index < table.length; index++) yield table.count(index, family)
}

const protocols: ReadonlyMap<number, Protocol> = new Map([
  [protocolNumber.tcp, 'tcp'],
  [protocolNumber.udp, 'udp'],
  [protocolNumber.sctp, 'sctp'],
])

class FlowTable extends RecordTable {
  flow(index: number, family: IpFamily): ConntrackFlow {
    const tcpState = this.u8(index, flowLayout.tcpState)
    return {
      protocol: protocolOf(this.u8(index, flowLayout.protocol)),
      source: this.ip(index, flowLayout.source, family),
      sourcePort: this.u16(index, flowLayout.sourcePort),
      destination: this.ip(index, flowLayout.destination, family),
      destinationPort: this.u16(index, flowLayout.destinationPort),
      replySource: this.ip(index, flowLayout.replySource, family),
      replySourcePort: this.u16(index, flowLayout.replySourcePort),
      tcpState: tcpState === 0 ? undefined : tcpStates[tcpState],
      timeoutSeconds: this.u32(index, flowLayout.timeoutSeconds),
    }
  }
}

class FlowCountTable extends RecordTable {
  count(index: number, family: IpFamily): ConntrackFlowCount {
    return {
      protocol: protocolOf(this.u8(index, flowCountLayout.protocol)),
      destination: this.ip(index, flowCountLayout.destination, family),
      destinationPort: this.u16(index, flowCountLayout.destinationPort),
      replySource: this.ip(index, flowCountLayout.replySource, family),
      replySourcePort: this.u16(index, flowCountLayout.replySourcePort),
      active: this.u32(index, flowCountLayout.active),
      inactive: this.u32(index, flowCountLayout.inactive),
    }
  }
}

function protocolOf(number: number): Protocol {
  const protocol = protocols.get(number)
  if (protocol === undefined) throw new BugError(`protocol ${number} belongs to no frontend`)
  return protocol
}
