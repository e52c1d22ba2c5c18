// The desired kernel state of a route for people, as `ipvsadm -Sn` and `ipset save` print it.
import { formatEndpoint } from '../../address.js'
import { boundedLines } from '../../engine/index.js'
import {
  describeIpsetEntry,
  type IpsetEntry,
  type RealServer,
  VirtualServerFlag,
  type VirtualServerKey,
  type VirtualServerSettings,
} from '../../kernel/index.js'
import { type DesiredVirtualServer, setName } from '../../layers/ipvs/index.js'

const serviceOptions = { tcp: '-t', udp: '-u', sctp: '--sctp-service' } as const

/**
 * Each virtual server with its real servers, then the entries of sets, each once; at most as many lines as `boundedLines` allows. A
 * VIP appears as its entry of KUBE-IPVS-IPS; the `local` route to the VIP has no line.
 */
export function describeServers(servers: readonly DesiredVirtualServer[]): readonly string[] {
  return boundedLines(linesOf(servers))
}

function* linesOf(servers: readonly DesiredVirtualServer[]): Generator<string> {
  for (const { key, settings, realServers } of servers) {
    const service = serviceText(key)
    yield `-A ${service} ${settingsText(settings)}`
    for (const real of realServers) yield `-a ${service} ${realServerText(real)}`
  }
  // The node ports of all addresses have the same entry of a bitmap.
  const seen = new Set<string>()
  for (const { key, entries } of servers) {
    for (const { set, entry } of entries) {
      const line = `add ${setName(set, key.family)} ${entryText(entry)}`
      if (!seen.has(line)) yield line
      seen.add(line)
    }
  }
}

export function serviceText(key: VirtualServerKey): string {
  if ('mark' in key) return key.family === 'ipv6' ? `-f ${key.mark} -6` : `-f ${key.mark}`
  return `${serviceOptions[key.protocol]} ${formatEndpoint(key.address, key.port)}`
}

/** `-s rr`, `-s sh -p 10800 -b sh-port`. */
function settingsText({ scheduler, flags, timeoutSeconds }: VirtualServerSettings): string {
  const names = ['sh', 'mh'].includes(scheduler)
    ? [`${scheduler}-fallback`, `${scheduler}-port`]
    : ['flag-1', 'flag-2']
  const bits = [VirtualServerFlag.scheduler1, VirtualServerFlag.scheduler2]
  const set = names.filter((_, i) => (flags & (bits[i] ?? 0)) !== 0)
  const persistence = (flags & VirtualServerFlag.persistent) === 0 ? '' : ` -p ${timeoutSeconds}`
  return `-s ${scheduler}${persistence}${set.length === 0 ? '' : ` -b ${set.join(',')}`}`
}

/** The mode reaches all of its real servers by masquerading. */
export function realServerText({ key, settings }: RealServer): string {
  return `-r ${formatEndpoint(key.address, key.port)} -m -w ${settings.weight}`
}

export function entryText(entry: IpsetEntry): string {
  const { mark } = entry
  const text = describeIpsetEntry(entry)
  return mark === undefined
    ? text
    : `${text} skbmark 0x${mark.value.toString(16)}/0x${mark.mask.toString(16)}`
}
