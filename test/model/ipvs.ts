// The kernel's IPVS table in memory, with its errnos (net/netfilter/ipvs/ip_vs_ctl.c, 6.1).
import { constants } from 'node:os'
import { familyOf, writeAddress, type IpAddress, type IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import type { IpvsBatch } from '../../src/kernel/ipvs/batch.js'
import { describeIpvsOp, familyOfIpvsOp } from '../../src/kernel/ipvs/servers.js'
import type {
  Ipvs,
  IpvsDump,
  IpvsInfo,
  IpvsOp,
  IpvsTimeouts,
  RealServer,
  RealServerKey,
  VirtualServer,
  VirtualServerKey,
} from '../../src/kernel/ipvs/ipvs.js'
import type { BatchOutcome } from '../../src/kernel/batch.js'
import { hostPrefixLength } from '../../src/kernel/records.js'
import { encodeTable, type ModelTraffic, type ModelVirtualServer } from './ipvs-table.js'
import { ModelBatches } from './faults.js'

const { EEXIST, EINVAL, ENOENT, ERANGE, ESRCH } = constants.errno

/** The schedulers of Debian's kernel (`modprobe ip_vs_<name>`), and "none", which needs no module. */
const schedulers = new Set('rr wrr lc wlc fo ovf lblc lblcr dh sh mh sed nq twos none'.split(' '))
/** The kernel stores time-outs as an int in ticks of 1/250 s. */
const maxTimeoutSeconds = Math.floor(0x7fffffff / 250)

function virtualServerText(key: VirtualServerKey): string {
  return 'mark' in key ? `${key.family} ${key.mark}` : `${key.protocol} ${key.address} ${key.port}`
}

function realServerText(key: RealServerKey): string {
  return `${key.address} ${key.port}`
}

/** Whether ip_vs_new_dest() accepts the address: unicast or local. */
function canBeRealServer(address: IpAddress): boolean {
  const bytes = new Uint8Array(16)
  writeAddress(address, bytes, 0)
  const [first = 0, second = 0] = bytes
  if (familyOf(address) === 'ipv4') {
    const isMulticast = first >= 224 && first < 240
    return address !== '0.0.0.0' && !isMulticast && address !== '255.255.255.255'
  }
  const isLinkLocal = first === 0xfe && (second & 0xc0) === 0x80
  return address !== '::' && first !== 0xff && !isLinkLocal
}

function checkVirtualServer({ key, settings }: VirtualServer): number {
  if (!schedulers.has(settings.scheduler)) return ENOENT
  const { netmaskLength } = settings
  const isWrong = netmaskLength > hostPrefixLength(key.family) || (key.family === 'ipv6' && netmaskLength < 1)
  return isWrong ? EINVAL : 0
}

function checkRealServer(server: VirtualServerKey, { key, settings }: RealServer): number {
  if (familyOf(key.address) !== server.family && settings.forwarding !== 'tunnel') return EINVAL
  // The kernel reads the thresholds as u32, the weight as int.
  if (settings.weight < 0 || settings.lowerThreshold > settings.upperThreshold) return ERANGE
  return settings.tunnel?.type === 'gue' && settings.tunnel.port === 0 ? EINVAL : 0
}

/** Ipvs in memory. `batches` holds the injected faults and the log of operations. */
export class ModelIpvs implements Ipvs {
  readonly batches = new ModelBatches<IpvsOp>({
    subsystem: 'ipvs',
    describe: describeIpvsOp,
    familyOf: familyOfIpvsOp,
  })
  /** Counters of a real server. The model passes no traffic; tests replace this function. */
  traffic: (server: VirtualServerKey, real: RealServerKey) => ModelTraffic = () => ({})
  readonly #table = new Map<string, ModelVirtualServer>()
  #timeouts: IpvsTimeouts = { tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 }

  async load(): Promise<void> {
    this.batches.enter('load')
  }

  async apply(ops: readonly IpvsOp[] | IpvsBatch): Promise<BatchOutcome> {
    return this.batches.apply(ops, (op) => this.#applyOne(op))
  }

  async dump(family: IpFamily, options?: { readonly counters?: boolean }): Promise<IpvsDump> {
    this.batches.enter('dump', { family })
    const servers = [...this.#table.values()].filter((server) => server.key.family === family)
    return encodeTable(servers, options?.counters === true ? this.traffic : undefined)
  }

  async read(
    keys: readonly VirtualServerKey[],
    options?: { readonly counters?: boolean },
  ): Promise<IpvsDump> {
    this.batches.enter('read')
    const servers = keys
      .map((key) => this.#table.get(virtualServerText(key)))
      .filter((server) => server !== undefined)
    return encodeTable(servers, options?.counters === true ? this.traffic : undefined)
  }

  /** No client connects to the model. */
  async *connections(): AsyncGenerator<never> {
    this.batches.enter('connections')
    yield* []
  }

  async info(): Promise<IpvsInfo> {
    this.batches.enter('info')
    return { version: 0x010201, connectionTableSize: 4096, ipv4VirtualServers: this.countIpv4() }
  }

  /** Number of IPv4 virtual servers. Not a call of the kernel. */
  countIpv4(): number {
    return [...this.#table.values()].filter((server) => server.key.family === 'ipv4').length
  }

  /** Text of these virtual servers. Not a call of the kernel. */
  describe(keys: readonly VirtualServerKey[]): string {
    return JSON.stringify(
      keys.map((key) => {
        const server = this.#table.get(virtualServerText(key))
        const reals = [...(server?.reals ?? [])].map(([name, real]) => [name, real.settings])
        return server && [server.settings, reals]
      }),
    )
  }

  async timeouts(): Promise<IpvsTimeouts> {
    this.batches.enter('timeouts')
    return this.#timeouts
  }

  async setTimeouts(timeouts: IpvsTimeouts): Promise<void> {
    this.batches.enter('setTimeouts')
    const { tcpSeconds, tcpFinSeconds, udpSeconds } = timeouts
    if (Math.max(tcpSeconds, tcpFinSeconds, udpSeconds) > maxTimeoutSeconds)
      throw new KernelError({ errno: EINVAL, subsystem: 'ipvs', operation: 'setTimeouts' })
    this.#timeouts = {
      tcpSeconds: tcpSeconds || this.#timeouts.tcpSeconds,
      tcpFinSeconds: tcpFinSeconds || this.#timeouts.tcpFinSeconds,
      udpSeconds: udpSeconds || this.#timeouts.udpSeconds,
    }
  }

  async close(): Promise<void> {
    this.batches.close()
  }

  #applyOne(op: IpvsOp): number {
    const key = 'key' in op.server ? op.server.key : op.server
    const server = this.#table.get(virtualServerText(key))
    if (op.op === 'add-virtual-server') return server === undefined ? this.#add(op.server) : EEXIST
    if (server === undefined) return ESRCH
    switch (op.op) {
      case 'set-virtual-server': {
        const errno = checkVirtualServer(op.server)
        const mask = op.flagsMask ?? ~0
        const flags = ((server.settings.flags & ~mask) | (op.server.settings.flags & mask)) >>> 0
        if (errno === 0) server.settings = { ...op.server.settings, flags }
        return errno
      }
      case 'remove-virtual-server':
        this.#table.delete(virtualServerText(key))
        return 0
      case 'zero-virtual-server':
        return 0 // the model passes no traffic: its counters are always 0
      case 'add-real-server':
        return addRealServer(server, op.real)
      case 'set-real-server':
        return setRealServer(server, op.real)
      case 'remove-real-server':
        return server.reals.delete(realServerText(op.real)) ? 0 : ENOENT
    }
  }

  #add(server: VirtualServer): number {
    const errno = checkVirtualServer(server)
    if (errno === 0) this.#table.set(virtualServerText(server.key), { ...server, reals: new Map() })
    return errno
  }
}

function addRealServer(server: ModelVirtualServer, real: RealServer): number {
  const errno = checkRealServer(server.key, real)
  if (errno !== 0) return errno
  if (server.reals.has(realServerText(real.key))) return EEXIST
  if (!canBeRealServer(real.key.address)) return EINVAL
  server.reals.set(realServerText(real.key), real)
  return 0
}

function setRealServer(server: ModelVirtualServer, real: RealServer): number {
  const errno = checkRealServer(server.key, real)
  if (errno !== 0) return errno
  if (!server.reals.has(realServerText(real.key))) return ENOENT
  server.reals.set(realServerText(real.key), real)
  return 0
}
