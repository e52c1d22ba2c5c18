// The parts of the kernel of a plan that need little state.
import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import type { Conntrack, ConntrackFlows, ConntrackOutcome } from '../conntrack/conntrack.js'
import type { KernelLook, LookWatch } from '../look/kernel-look.js'
import type { NftChain, NftChains } from '../nftables/nft-chains.js'
import type { BatchOutcome } from '../batch.js'
import type { HoldOutcome, Listener, PortOp, PortPlace, Ports, WatchedPort } from '../ports/ports.js'
import { describePlace } from '../ports/real-ports.js'
import type { Relay, RelayCounters, RelayOp, RelayConditions } from '../relay/relay.js'
import { planBatch } from './planned-batch.js'
import type { PlannedNftables } from './planned-nftables.js'
import { PlannedWatch } from './planned-watch.js'

/** Names of chains in the planned nf_tables. */
export class PlannedNftChains implements NftChains {
  readonly #nftables: PlannedNftables

  constructor(nftables: PlannedNftables) {
    this.#nftables = nftables
  }

  async list(family: IpFamily): Promise<readonly NftChain[]> {
    const chains = await this.#nftables.chains({ family })
    return chains.map(({ table, chain }) => ({ table, chain }))
  }

  async discardTable(family: IpFamily, table: string): Promise<boolean> {
    return await this.#nftables.discardTable({ family, table })
  }

  /** Tables that do not exist are shown empty, so that no module is needed. */
  async loadXtables(): Promise<void> {}

  async close(): Promise<void> {}
}

/** No flow is deleted. */
export class PlannedConntrack implements Conntrack {
  async deleteStale(): Promise<ConntrackOutcome> {
    return { seen: undefined, deleted: 0 }
  }

  async listFlows(): Promise<ConntrackFlows> {
    return { flows: [], total: 0 }
  }

  async countFlows(): Promise<readonly never[]> {
    return []
  }

  async close(): Promise<void> {}
}

/** No socket is opened. A port that another agent holds counts as held: it frees the port at its end. */
export class PlannedPorts implements Ports {
  readonly #real: Ports
  /** False: a question about sockets would load modules of the kernel. */
  readonly #canAsk: boolean
  readonly #held = new Map<string, PortPlace>()

  constructor(real: Ports, canAsk: boolean) {
    this.#real = real
    this.#canAsk = canAsk
  }

  async apply(ops: readonly PortOp[]): Promise<HoldOutcome> {
    const taken = await this.#findTaken(ops)
    const words = {
      subsystem: 'ports',
      describe: ({ place }: PortOp) => describePlace(place),
      familyOf: ({ place }: PortOp) => place.family,
    } as const
    const outcome = planBatch(ops, words, ({ op, place }) => {
      const key = keyOf(place)
      if (op === 'release') return this.#held.delete(key) ? 0 : constants.errno.ENOENT
      if (taken.has(key)) return constants.errno.EADDRINUSE
      this.#held.set(key, place)
      return 0
    })
    return { ...outcome, storeError: undefined }
  }

  async list(): Promise<readonly PortPlace[]> {
    return [...this.#held.values()]
  }

  async find(family: IpFamily, ports: readonly WatchedPort[]): Promise<readonly Listener[]> {
    return this.#canAsk ? await this.#real.find(family, ports) : []
  }

  close(): Promise<void> {
    return this.#real.close()
  }

  /** The places that a program other than an agent listens on. */
  async #findTaken(ops: readonly PortOp[]): Promise<ReadonlySet<string>> {
    const places = ops.flatMap(({ op, place }) => (op === 'hold' ? [place] : []))
    const taken = new Set<string>()
    for (const family of ['ipv4', 'ipv6'] as const) {
      const own = places.filter((place) => place.family === family)
      const asked = own.flatMap(({ protocol, port }) => (protocol === 'sctp' ? [] : [{ protocol, port }]))
      const listeners = asked.length === 0 ? [] : await this.find(family, asked)
      for (const place of own)
        if (listeners.some((each) => !each.isHeld && isConflict(each, place))) taken.add(keyOf(place))
    }
    return taken
  }
}

function keyOf(place: PortPlace): string {
  return `${place.family} ${describePlace(place)}`
}

function isConflict(listener: Listener, { protocol, address, port }: PortPlace): boolean {
  const isSamePort = listener.protocol === protocol && listener.port === port
  return (
    isSamePort && (address === undefined || listener.address === undefined || listener.address === address)
  )
}

/** Nothing listens. */
export class PlannedRelay implements Relay {
  readonly #conditions = new PlannedWatch()

  async configure(): Promise<void> {}

  async apply(ops: readonly RelayOp[]): Promise<BatchOutcome> {
    return { applied: ops.length, failures: [] }
  }

  async counters(): Promise<RelayCounters> {
    return {
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
  }

  async flows(): Promise<readonly never[]> {
    return []
  }

  async nextConditions(): Promise<RelayConditions | undefined> {
    return await this.#conditions.next()
  }

  async close(): Promise<void> {
    await this.#conditions.close()
  }
}

/** Sees no change. A real look would create absent tables. */
export class PlannedLook implements KernelLook {
  async take(): Promise<Uint8Array> {
    return new Uint8Array(0)
  }

  watch(): LookWatch {
    return new PlannedWatch()
  }

  watchTables(): LookWatch {
    return new PlannedWatch()
  }

  async close(): Promise<void> {}
}
