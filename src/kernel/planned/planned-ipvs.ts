import { constants } from 'node:os'
import { formatEndpoint, type IpFamily, writeAddress } from '../../address.js'
import type { IpvsBatch } from '../ipvs/batch.js'
import { RealServerCursor, VirtualServerCursor } from '../ipvs/cursors.js'
import { describeIpvsOp, describeVirtualServer, familyOfIpvsOp } from '../ipvs/servers.js'
import {
  writeRealServerKey,
  writeRealServerSettings,
  writeVirtualServerKey,
  writeVirtualServerSettings,
} from '../ipvs/encode.js'
import type {
  Ipvs,
  IpvsConnection,
  IpvsDump,
  IpvsInfo,
  IpvsOp,
  IpvsTimeouts,
  RealServer,
  VirtualServerKey,
  VirtualServerSettings,
} from '../ipvs/ipvs.js'
import { countersLayout, realServerLayout, virtualServerLayout } from '../ipvs/layout.js'
import type { BatchOutcome } from '../batch.js'
import { recordBuffer } from '../records.js'
import { planBatch } from './planned-batch.js'

const { EEXIST, ENOENT, ESRCH } = constants.errno

const allFlags = 0xffffffff

interface PlannedServer {
  readonly key: VirtualServerKey
  settings: VirtualServerSettings
  /** By address and port. */
  readonly reals: Map<string, PlannedReal>
}

interface PlannedReal extends RealServer {
  /** The kernel's counters (a CountersRecord); undefined: a planned server. */
  readonly counters: Uint8Array | undefined
}

/** By `describeVirtualServer`. */
type Table = Map<string, PlannedServer>

export interface PlannedIpvsOptions {
  /** False: IPVS is not loaded, and has no virtual servers. */
  readonly isLoaded: boolean
  /** False: the kernel lacks the scheduler. */
  readonly hasScheduler: (scheduler: string) => boolean
}

/** IPVS of a plan. Each family is read at the first call that concerns it. */
export class PlannedIpvs implements Ipvs {
  readonly #real: Ipvs
  readonly #isLoaded: boolean
  readonly #hasScheduler: PlannedIpvsOptions['hasScheduler']
  readonly #tables = new Map<IpFamily, Promise<Table>>()
  #timeouts: IpvsTimeouts | undefined

  constructor(real: Ipvs, { isLoaded, hasScheduler }: PlannedIpvsOptions) {
    this.#real = real
    this.#isLoaded = isLoaded
    this.#hasScheduler = hasScheduler
  }

  async load(): Promise<void> {
    await this.info()
  }

  async apply(ops: readonly IpvsOp[] | IpvsBatch): Promise<BatchOutcome> {
    const tables = { ipv4: await this.#table('ipv4'), ipv6: await this.#table('ipv6') }
    const words = { subsystem: 'ipvs', describe: describeIpvsOp, familyOf: familyOfIpvsOp } as const
    return planBatch<IpvsOp>(ops, words, (op) =>
      // As ip_vs_add_service().
      'key' in op.server && !this.#hasScheduler(op.server.settings.scheduler)
        ? ENOENT
        : applyOne(tables[familyOfIpvsOp(op)], op),
    )
  }

  async dump(family: IpFamily, options?: { readonly counters?: boolean }): Promise<IpvsDump> {
    const table = await this.#table(family)
    return encode([...table.values()], options?.counters === true)
  }

  async read(
    keys: readonly VirtualServerKey[],
    options?: { readonly counters?: boolean },
  ): Promise<IpvsDump> {
    const found: PlannedServer[] = []
    for (const key of keys) {
      const server = (await this.#table(key.family)).get(describeVirtualServer(key))
      if (server !== undefined) found.push(server)
    }
    return encode(found, options?.counters === true)
  }

  async info(): Promise<IpvsInfo> {
    const { size } = await this.#table('ipv4')
    if (this.#isLoaded) return { ...(await this.#real.info()), ipv4VirtualServers: size }
    return { version: 0x010201, connectionTableSize: 4096, ipv4VirtualServers: size }
  }

  connections(family: IpFamily): AsyncIterable<IpvsConnection> {
    return this.#real.connections(family)
  }

  async timeouts(): Promise<IpvsTimeouts> {
    // The defaults of ip_vs_proto_tcp.c and ip_vs_proto_udp.c.
    this.#timeouts ??= this.#isLoaded
      ? await this.#real.timeouts()
      : { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 }
    return this.#timeouts
  }

  async setTimeouts({ tcpSeconds, tcpFinSeconds, udpSeconds }: IpvsTimeouts): Promise<void> {
    const present = await this.timeouts()
    this.#timeouts = {
      tcpSeconds: tcpSeconds || present.tcpSeconds,
      tcpFinSeconds: tcpFinSeconds || present.tcpFinSeconds,
      udpSeconds: udpSeconds || present.udpSeconds,
    }
  }

  close(): Promise<void> {
    return this.#real.close()
  }

  #table(family: IpFamily): Promise<Table> {
    const known = this.#tables.get(family)
    if (known !== undefined) return known
    const table = this.#isLoaded
      ? this.#real.dump(family, { counters: true }).then(decode)
      : Promise.resolve<Table>(new Map())
    this.#tables.set(family, table)
    return table
  }
}

function realKey({ key }: RealServer): string {
  return formatEndpoint(key.address, key.port)
}

/** An errno, or 0. */
function applyOne(table: Table, op: IpvsOp): number {
  const key = 'key' in op.server ? op.server.key : op.server
  const name = describeVirtualServer(key)
  const server = table.get(name)
  if (op.op === 'add-virtual-server') {
    if (server !== undefined) return EEXIST
    table.set(name, { ...op.server, reals: new Map() })
    return 0
  }
  if (server === undefined) return ESRCH
  switch (op.op) {
    case 'set-virtual-server': {
      const mask = op.flagsMask ?? allFlags
      const flags = ((server.settings.flags & ~mask) | (op.server.settings.flags & mask)) >>> 0
      server.settings = { ...op.server.settings, flags }
      return 0
    }
    case 'remove-virtual-server':
      table.delete(name)
      return 0
    case 'zero-virtual-server':
      return 0
    case 'add-real-server':
    case 'set-real-server': {
      const present = server.reals.get(realKey(op.real))
      if (op.op === 'add-real-server' && present !== undefined) return EEXIST
      if (op.op === 'set-real-server' && present === undefined) return ENOENT
      server.reals.set(realKey(op.real), { ...op.real, counters: present?.counters })
      return 0
    }
    case 'remove-real-server':
      return server.reals.delete(formatEndpoint(op.real.address, op.real.port)) ? 0 : ENOENT
  }
}

function decode(dump: IpvsDump): Table {
  const servers = new VirtualServerCursor(dump.virtualServers)
  const reals = new RealServerCursor(dump.realServers)
  const counters = dump.realServerCounters ?? new Uint8Array(0)
  const { size } = countersLayout
  const table: Table = new Map()
  for (let index = 0; index < servers.length; index++) {
    const key = servers.key(index)
    const server: PlannedServer = { key, settings: servers.settings(index), reals: new Map() }
    const first = servers.firstReal(index)
    for (let at = first; at < first + servers.realCount(index); at++) {
      const real = { key: reals.key(at), settings: reals.settings(at) }
      server.reals.set(realKey(real), { ...real, counters: counters.subarray(at * size, (at + 1) * size) })
    }
    table.set(describeVirtualServer(key), server)
  }
  return table
}

/** In the form of the addon: real servers sorted by address, then port. */
function encode(servers: readonly PlannedServer[], hasCounters: boolean): IpvsDump {
  const realCount = servers.reduce((sum, { reals }) => sum + reals.size, 0)
  const virtualServers = recordBuffer(servers.length * virtualServerLayout.size)
  const realServers = recordBuffer(realCount * realServerLayout.size)
  const realServerCounters = new Uint8Array(hasCounters ? realCount * countersLayout.size : 0)
  let firstReal = 0
  for (const [index, { key, settings, reals }] of servers.entries()) {
    const at = index * virtualServerLayout.size
    writeVirtualServerKey(virtualServers, at, key)
    writeVirtualServerSettings(virtualServers, at, settings, allFlags)
    virtualServers.view.setUint32(at + virtualServerLayout.firstReal, firstReal, true)
    virtualServers.view.setUint32(at + virtualServerLayout.realCount, reals.size, true)
    for (const real of [...reals.values()].toSorted(compareReals)) {
      writeRealServerKey(realServers, firstReal * realServerLayout.size, real.key)
      writeRealServerSettings(realServers, firstReal * realServerLayout.size, real.settings)
      if (hasCounters && real.counters !== undefined)
        realServerCounters.set(real.counters, firstReal * countersLayout.size)
      firstReal++
    }
  }
  const tables = { virtualServers: virtualServers.bytes, realServers: realServers.bytes }
  if (!hasCounters) return tables
  const virtualServerCounters = new Uint8Array(servers.length * countersLayout.size)
  return { ...tables, virtualServerCounters, realServerCounters }
}

/** By address bytes, then port. */
function compareReals({ key: a }: RealServer, { key: b }: RealServer): number {
  const bytes = new Uint8Array(32)
  writeAddress(a.address, bytes, 0)
  writeAddress(b.address, bytes, 16)
  return Buffer.compare(bytes.subarray(0, 16), bytes.subarray(16)) || a.port - b.port
}
