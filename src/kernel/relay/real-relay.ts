import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import type { Addon, RawRelay } from '../addon.js'
import { nameFailures, decodeFailures, type BatchOutcome } from '../batch.js'
import { protocolNumber } from '../ipvs/encode.js'
import { familyFromByte, RecordTable } from '../records.js'
import { type CallCounts, closedError, RequestQueue } from '../request-queue.js'
import {
  describeRelayOp,
  familyOfRelayOp,
  type Relay,
  type RelayCounters,
  type RelayEndpoint,
  type RelayFlow,
  type RelayOp,
  type RelaySettings,
  type RelayConditions,
} from './relay.js'
import { encodeAddresses, encodeInterfaces, encodeNetworks, encodeRelayOps } from './encode.js'
import { countersLayout, flowLayout } from './layout.js'

/** Time between two looks at the conditions. A look reads two numbers. */
const conditionPeriodMs = 1000

/** Before the first operation. */
const noCounters: RelayCounters = {
  listeners: 0,
  connections: 0,
  flows: 0,
  acceptedConnections: 0,
  failedConnections: 0,
  refusedConnections: 0,
  shedConnections: 0,
  startedFlows: 0,
  evictedFlows: 0,
  spentHops: 0,
  receivedBytes: 0,
  sentBytes: 0,
}

class CountersReader extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, countersLayout)
  }

  read(): RelayCounters {
    const number = (offset: number): number => this.u64(0, offset)
    return {
      listeners: number(countersLayout.listeners),
      connections: number(countersLayout.connections),
      flows: number(countersLayout.flows),
      acceptedConnections: number(countersLayout.acceptedConnections),
      failedConnections: number(countersLayout.failedConnections),
      refusedConnections: number(countersLayout.refusedConnections),
      shedConnections: number(countersLayout.shedConnections),
      startedFlows: number(countersLayout.startedFlows),
      evictedFlows: number(countersLayout.evictedFlows),
      spentHops: number(countersLayout.spentHops),
      receivedBytes: number(countersLayout.receivedBytes),
      sentBytes: number(countersLayout.sentBytes),
    }
  }
}

class FlowReader extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, flowLayout)
  }

  family(index: number): IpFamily {
    return familyFromByte(this.u8(index, flowLayout.family))
  }

  read(index: number): RelayFlow {
    const family = this.family(index)
    const end = (address: number, port: number): RelayEndpoint => ({
      address: this.ip(index, address, family),
      port: this.u16(index, port),
    })
    return {
      protocol: this.u8(index, flowLayout.protocol) === protocolNumber.tcp ? 'tcp' : 'udp',
      client: end(flowLayout.client, flowLayout.clientPort),
      frontend: end(flowLayout.frontend, flowLayout.frontendPort),
      endpoint: end(flowLayout.endpoint, flowLayout.endpointPort),
      isConnected: this.u8(index, flowLayout.isConnected) === 1,
    }
  }
}

function* flowsOf(flows: FlowReader, family: IpFamily): Generator<RelayFlow> {
  for (let index = 0; index < flows.length; index++)
    if (flows.family(index) === family) yield flows.read(index)
}

const shortages = [
  'hasFewDescriptors',
  'hasFewUdpPorts',
  'hasFewTcpPorts',
  'hasTakenPort',
  'hasLoop',
  'hasSpentHops',
] as const

/** The threads of the addon. The first call starts them. */
export class RealRelay implements Relay {
  readonly #queue: RequestQueue<RawRelay>
  readonly #clock: Clock
  #last: Pick<RelayConditions, (typeof shortages)[number]> = {
    hasFewDescriptors: false,
    hasFewUdpPorts: false,
    hasFewTcpPorts: false,
    hasTakenPort: false,
    hasLoop: false,
    hasSpentHops: false,
  }
  #isClosed = false
  /** Ends the wait of nextConditions(). */
  #wake: () => void = () => {}

  constructor(addon: () => Addon, calls: CallCounts, clock: Clock) {
    this.#clock = clock
    this.#queue = new RequestQueue(() => new (addon().Relay)(), 'relay', calls)
  }

  async configure(settings: RelaySettings): Promise<void> {
    const networks = encodeNetworks(settings.nearNetworks)
    const interfaces = encodeInterfaces(settings.nearInterfaces)
    const nodePorts = encodeAddresses(settings.nodePortAddresses)
    await this.#queue.run((relay) => relay.configure(networks, interfaces, settings.udpIdleMs, nodePorts))
  }

  async apply(ops: readonly RelayOp[]): Promise<BatchOutcome> {
    if (ops.length === 0) return { applied: 0, failures: [] }
    const batch = encodeRelayOps(ops)
    const outcome = await this.#queue.run((relay) =>
      relay.apply(batch.ops, batch.services, batch.listeners, batch.endpoints, batch.ranges),
    )
    return nameFailures(ops, decodeFailures(outcome), {
      subsystem: 'relay',
      describe: describeRelayOp,
      familyOf: familyOfRelayOp,
    })
  }

  async counters(): Promise<RelayCounters> {
    if (this.#isClosed) throw closedError('relay')
    let counters: RelayCounters | undefined
    this.#queue.touch((relay) => {
      counters = new CountersReader(relay.counters()).read()
    })
    return counters ?? noCounters
  }

  async flows(family: IpFamily): Promise<Iterable<RelayFlow>> {
    return flowsOf(new FlowReader(await this.#queue.run((relay) => relay.flows())), family)
  }

  async nextConditions(): Promise<RelayConditions | undefined> {
    while (!this.#isClosed) {
      let conditions: RelayConditions | undefined
      this.#queue.touch((relay) => {
        conditions = relay.conditions()
      })
      if (conditions !== undefined && this.#isNew(conditions)) {
        this.#last = conditions
        return conditions
      }
      await this.#pause()
    }
    return undefined
  }

  #isNew(conditions: RelayConditions): boolean {
    return shortages.some((name) => conditions[name] !== this.#last[name])
  }

  /** Waits for the next look, or for close(). Does not keep the process alive. */
  async #pause(): Promise<void> {
    let cancel: (() => void) | undefined
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      cancel = this.#clock.every(conditionPeriodMs, resolve)
    })
    cancel?.()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#wake()
    await this.#queue.close()
  }
}
