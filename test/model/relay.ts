import { constants } from 'node:os'
import { familyOf, type IpAddress } from '../../src/address.js'
import type { BatchOutcome } from '../../src/kernel/batch.js'
import {
  describeRelayListener,
  describeRelayOp,
  familyOfRelayOp,
  wildcardAddress,
  type Relay,
  type RelayAddress,
  type RelayCounters,
  type RelayListener,
  type RelayOp,
  type RelayService,
  type RelaySettings,
  type RelayConditions,
} from '../../src/kernel/relay/relay.js'
import { ModelBatches } from './faults.js'
import type { ModelNetwork } from './network.js'

const { EADDRINUSE, EADDRNOTAVAIL, EBUSY, ENOENT } = constants.errno

const noCounts = {
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
} as const satisfies Omit<RelayCounters, 'listeners'>

/**
 * The services and listeners of a relay in memory, without traffic. `batches` holds the injected faults and the log of operations.
 * Tests read `services`, `listeners` and `settings`.
 */
export class ModelRelay implements Relay {
  readonly batches = new ModelBatches<RelayOp>({
    subsystem: 'relay',
    describe: describeRelayOp,
    familyOf: familyOfRelayOp,
  })
  readonly services = new Map<number, RelayService>()
  /** By describeRelayListener(). */
  readonly listeners = new Map<string, RelayListener>()
  /** Sockets of other programs, by describeRelayListener(): their addresses are in use. */
  readonly foreignSockets = new Set<string>()
  settings: RelaySettings | undefined
  readonly #network: ModelNetwork
  #conditions: RelayConditions | undefined
  #wake: () => void = () => {}
  #isClosed = false

  constructor(network: ModelNetwork) {
    this.#network = network
  }

  async configure(settings: RelaySettings): Promise<void> {
    this.batches.enter('configure')
    this.settings = settings
  }

  async apply(ops: readonly RelayOp[]): Promise<BatchOutcome> {
    return this.batches.apply(ops, (op) => this.#applyOne(op))
  }

  async counters(): Promise<RelayCounters> {
    this.batches.enter('counters')
    return { listeners: this.listeners.size, ...noCounts }
  }

  async flows(): Promise<readonly never[]> {
    this.batches.enter('flows')
    return []
  }

  async nextConditions(): Promise<RelayConditions | undefined> {
    while (this.#conditions === undefined && !this.#isClosed)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    const conditions = this.#isClosed ? undefined : this.#conditions
    this.#conditions = undefined
    return conditions
  }

  /** For tests: nextConditions() resolves with it. */
  report(conditions: RelayConditions): void {
    this.#conditions = conditions
    this.#wake()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.batches.close()
    this.services.clear()
    this.listeners.clear()
    this.#wake()
  }

  /** An errno, or 0. */
  #applyOne(op: RelayOp): number {
    switch (op.op) {
      case 'set-service':
        this.services.set(op.service.id, op.service)
        return 0
      case 'remove-service':
        return this.#removeService(op.id)
      case 'set-listener':
        return this.#setListener(op.listener)
      case 'remove-listener':
        return this.listeners.delete(describeRelayListener(op.listener)) ? 0 : ENOENT
    }
  }

  #removeService(id: number): number {
    if (!this.services.has(id)) return ENOENT
    if ([...this.listeners.values()].some(({ service }) => service === id)) return EBUSY
    this.services.delete(id)
    return 0
  }

  #setListener(listener: RelayListener): number {
    if (!this.services.has(listener.service)) return ENOENT
    const key = describeRelayListener(listener)
    if (!this.listeners.has(key)) {
      if (!this.#isLocal(listener.address)) return EADDRNOTAVAIL
      if (this.#isTaken(listener)) return EADDRINUSE
    }
    this.listeners.set(key, listener)
    return 0
  }

  /** IPv4: local routes; all of 127.0.0.0/8 is local. IPv6: not checked. */
  #isLocal(address: IpAddress): boolean {
    if (address.includes(':') || address.startsWith('127.') || isWildcard(address)) return true
    return this.#network.routes.some((route) => route.address === address)
  }

  /** Whether another program cannot have this address and port: a listener has it. */
  sharesPortWith({ protocol, address, port }: RelayAddress): boolean {
    return [...this.listeners.values()].some(
      (one) =>
        one.protocol === protocol &&
        one.port === port &&
        familyOf(one.address) === familyOf(address) &&
        (one.address === address || isWildcard(one.address) || isWildcard(address)),
    )
  }

  /** By another program: listeners of the relay stand beside each other. */
  #isTaken({ protocol, address, port }: RelayAddress): boolean {
    const family = familyOf(address)
    const nameOf = (one: IpAddress): string => describeRelayListener({ protocol, address: one, port })
    if (!isWildcard(address))
      return [address, wildcardAddress[family]].some((one) => this.foreignSockets.has(nameOf(one)))
    return [...this.foreignSockets].some((name) => {
      const isOfFamily = name.includes('[') === (family === 'ipv6')
      return isOfFamily && name.startsWith(`${protocol} `) && name.endsWith(`:${port}`)
    })
  }
}

function isWildcard(address: IpAddress): boolean {
  return address === wildcardAddress[familyOf(address)]
}
