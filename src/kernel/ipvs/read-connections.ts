// Reads /proc/net/ip_vs_conn: the connections of IPVS, which no netlink message lists.
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { familyOf, type IpFamily, parseIpAddress } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { IpvsConnection, Protocol, RealServerKey } from './ipvs.js'

const file = '/proc/self/net/ip_vs_conn'

/** The connections of a family. None if the kernel has no IPVS. Throws KernelError. */
export async function* readConnections(family: IpFamily): AsyncGenerator<IpvsConnection> {
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
export function octetsOf(text: string): string {
  const octets = text.match(/^(..)(..)(..)(..)$/u)?.slice(1)
  return octets?.map((digits) => Number.parseInt(digits, 16)).join('.') ?? text
}
