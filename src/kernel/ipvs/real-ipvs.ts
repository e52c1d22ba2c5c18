import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { type IpFamily, familyOf, parseIpAddress, type IpAddress } from '../../address.js'
import type { Addon, RawIpvsSocket } from '../addon.js'
import { nameFailures, decodeFailures, type BatchOutcome } from '../batch.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { KernelError } from '../../errors.js'
import { describeIpvsOp, familyOfIpvsOp } from './servers.js'
import { IpvsBatch } from './batch.js'
import type {
  Ipvs,
  IpvsConnection,
  IpvsDump,
  IpvsInfo,
  IpvsOp,
  IpvsTimeouts,
  VirtualServerKey,
  Protocol,
  RealServerKey,
} from './ipvs.js'
import { encodeVirtualServerKeys } from './encode.js'

/** The IPVS table of the running kernel. */
export class RealIpvs implements Ipvs {
  readonly #queue: RequestQueue<RawIpvsSocket>
  /** A dump with counters is for people: writes do not wait for it. */
  readonly #counting: RequestQueue<RawIpvsSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    const open = (): RawIpvsSocket => new (addon().IpvsSocket)()
    this.#queue = new RequestQueue(open, 'ipvs', calls)
    this.#counting = new RequestQueue(open, 'ipvs', calls)
  }

  load(): Promise<void> {
    return this.#queue.run((socket) => socket.load())
  }

  async apply(ops: readonly IpvsOp[] | IpvsBatch): Promise<BatchOutcome> {
    if (ops.length === 0) return { applied: 0, failures: [] }
    const batch = ops instanceof IpvsBatch ? ops : IpvsBatch.of(ops)
    const { encoded } = batch
    const outcome = await this.#queue.run((socket) =>
      socket.apply(encoded.ops, encoded.virtualServers, encoded.realServers),
    )
    return nameFailures(batch, decodeFailures(outcome), {
      subsystem: 'ipvs',
      describe: describeIpvsOp,
      familyOf: familyOfIpvsOp,
    })
  }

  dump(family: IpFamily, options?: { readonly counters?: boolean }): Promise<IpvsDump> {
    const hasCounters = options?.counters ?? false
    const queue = hasCounters ? this.#counting : this.#queue
    return queue.run((socket) => socket.dump(addressFamily[family], hasCounters), { family })
  }

  read(keys: readonly VirtualServerKey[], options?: { readonly counters?: boolean }): Promise<IpvsDump> {
    const records = encodeVirtualServerKeys(keys)
    return this.#queue.run((socket) => socket.read(records, options?.counters ?? false))
  }

  info(): Promise<IpvsInfo> {
    return this.#queue.run((socket) => socket.info())
  }

  connections(family: IpFamily): AsyncIterable<IpvsConnection> {
    return readConnections(family)
  }

  timeouts(): Promise<IpvsTimeouts> {
    return this.#queue.run((socket) => socket.timeouts())
  }

  setTimeouts({ tcpSeconds, tcpFinSeconds, udpSeconds }: IpvsTimeouts): Promise<void> {
    return this.#queue.run((socket) => socket.setTimeouts(tcpSeconds, tcpFinSeconds, udpSeconds))
  }

  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#counting.close()])
  }
}

const file = '/proc/self/net/ip_vs_conn'

/** The connections of a family. None if the kernel has no IPVS. Throws KernelError. */
async function* readConnections(family: IpFamily): AsyncGenerator<IpvsConnection> {
  const stream = createReadStream(file)
  try {
    for await (const line of createInterface(stream)) {
      const connection = parseConnection(line)
      if (connection !== undefined && familyOf(connection.virtual.address) === family) yield connection
    }
  } catch (error) {
    if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') throw error
    // libuv's numbers are negative errnos on Linux.
    const refusal = new KernelError({
      errno: -error.errno,
      subsystem: 'ipvs',
      operation: 'read',
      object: file,
    })
    if (refusal.code !== 'ENOENT') throw refusal
  } finally {
    stream.destroy()
  }
}

const protocols: ReadonlyMap<string, Protocol> = new Map([
  ['TCP', 'tcp'],
  ['UDP', 'udp'],
  ['SCTP', 'sctp'],
])

/** The connection of a line of ip_vs_conn_seq_show(); undefined: the line is the heading, or a record of persistence. */
export function parseConnection(line: string): IpvsConnection | undefined {
  const [name = '', from, fromPort, to, toPort, dest, destPort, state = '', expires] = line
    .trim()
    .split(/\s+/u)
  const protocol = protocols.get(name)
  const client = endOf(from, fromPort)
  const virtual = endOf(to, toPort)
  const real = endOf(dest, destPort)
  if (protocol === undefined || client === undefined || virtual === undefined || real === undefined)
    return undefined
  // Only a record of persistence has no port of a client.
  if (client.port === 0) return undefined
  return { protocol, client, virtual, real, state, expiresSeconds: Number(expires) }
}

/** IPv4 as eight hexadecimal digits, IPv6 in groups; the port in hexadecimal digits. */
function endOf(text = '', port = ''): RealServerKey | undefined {
  const address = parseIpAddress(octetsOf(text))
  return address === undefined ? undefined : { address, port: Number.parseInt(port, 16) }
}

/** Eight hexadecimal digits as the octets of an IPv4 address; any other text as it is. */
function octetsOf(text: string): string {
  const octets = text.match(/^(..)(..)(..)(..)$/u)?.slice(1)
  return octets?.map((digits) => Number.parseInt(digits, 16)).join('.') ?? text
}

/** The address of the virtual server in a line of ip_vs_info_seq_show(); undefined: the line has no such server, or its server has a mark. */
export function listedServerAddress(line: string): IpAddress | undefined {
  const [, ipv4, ipv6 = ''] = /^(?:TCP|UDP|SCTP) +(?:([0-9A-F]{8})|\[([0-9a-f:.]+)\]):/u.exec(line) ?? []
  return parseIpAddress(ipv4 === undefined ? ipv6 : octetsOf(ipv4))
}
