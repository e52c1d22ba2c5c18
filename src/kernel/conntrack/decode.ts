// Reads the records of flows.
import type { IpFamily } from '../../address.js'
import { BugError } from '../../errors.js'
import { protocolNumber } from '../ipvs/encode.js'
import type { Protocol } from '../ipvs/ipvs.js'
import { RecordTable } from '../records.js'
import { type ConntrackFlow, type ConntrackFlowCount, tcpStates } from './conntrack.js'
import { flowCountLayout, flowLayout } from './layout.js'

/** The flows of FlowRecords, in their order. */
export function decodeFlows(records: Uint8Array, family: IpFamily): readonly ConntrackFlow[] {
  const table = new FlowTable(records, flowLayout)
  return Array.from({ length: table.length }, (_, index) => table.flow(index, family))
}

/** The counts of FlowCountRecords, in their order. */
export function* decodeFlowCounts(records: Uint8Array, family: IpFamily): Generator<ConntrackFlowCount> {
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
