// Counters of the kernel that say where a packet was lost.
import { readFile } from 'node:fs/promises'

/** The fields of /proc/net/snmp6 that count lost datagrams. IPv4 has the same in two lines of /proc/net/snmp. */
const udpFields = /^Udp6(InErrors|RcvbufErrors|SndbufErrors|NoPorts)\s+(\d+)$/gmu

/**
 * Packets and datagrams lost so far. `backlog`: at the end of the queue of a processor, which all network namespaces share
 * (net.core.netdev_max_backlog). The others are of this network namespace.
 */
export async function lostPackets(): Promise<ReadonlyMap<string, number>> {
  const [softnet, snmp, snmp6, conntrack] = await Promise.all([
    readFile('/proc/net/softnet_stat', 'utf8'),
    readFile('/proc/net/snmp', 'utf8'),
    readFile('/proc/net/snmp6', 'utf8'),
    readFile('/proc/net/stat/nf_conntrack', 'utf8').catch(() => ''),
  ])
  const lost = new Map([['backlog', sumOf(softnet.trim().split('\n'), 1)]])
  const [names = [], values = []] = snmp.match(/^Udp: .*$/gmu)?.map((line) => line.split(' ')) ?? []
  for (const field of ['InErrors', 'RcvbufErrors', 'SndbufErrors', 'NoPorts'])
    lost.set(`udp ${field}`, Number(values[names.indexOf(field)] ?? 0))
  for (const [, field = '', count] of snmp6.matchAll(udpFields)) lost.set(`udp6 ${field}`, Number(count))
  const [heading = '', ...processors] = conntrack.trim().split('\n')
  for (const field of ['insert_failed', 'drop', 'early_drop'])
    lost.set(`conntrack ${field}`, sumOf(processors, heading.trim().split(/\s+/u).indexOf(field)))
  return lost
}

/** The counters that grew, as `backlog +3`; `none of them`. */
export function lostSince(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): string {
  const grown = [...after].filter(([name, count]) => count > (before.get(name) ?? 0))
  return (
    grown.map(([name, count]) => `${name} +${count - (before.get(name) ?? 0)}`).join(', ') || 'none of them'
  )
}

/** The sum of a column of hexadecimal numbers, one line per processor. */
function sumOf(lines: readonly string[], column: number): number {
  return lines.reduce((sum, line) => sum + Number.parseInt(line.trim().split(/\s+/u)[column] ?? '0', 16), 0)
}
