// Packets that the kernel drops because their source address has another way back; tunnels whose packets do not fit into those of the
// interface below; connections that the kernel lost; bridged packets that pass no rules.
import { type Link, AddressCursor } from '../kernel/index.js'
import { type Cidr, cidrContains, type IpFamily, parseCidr } from '../address.js'
import { type Check, ok, type Examined, problemsOr, type Verdict } from './check.js'
import { field, jsonOf, nodeAnswer } from './api-checks.js'

export const pathChecks: readonly Check[] = [
  {
    name: 'reverse-path',
    looksAt:
      'rp_filter of each interface, and the packets that it dropped since this network namespace began',
    run: async ({ read, kernel }) => {
      const all = await setting(read, 'all')
      const strict: string[] = []
      // The kernel takes the larger one of both values.
      for (const { name } of await kernel.links.list())
        if (Math.max(all, await setting(read, name)) === 1) strict.push(name)
      const dropped = counter((await read('/proc/net/netstat')) ?? '', 'TcpExt', 'IPReversePathFilter')
      const where = strict.length === 0 ? 'strict on no interface' : `strict on ${strict.join(', ')}`
      if (dropped === 0) return ok(`no packet dropped; ${where}`)
      return [
        {
          status: 'warning',
          seen: `the reverse path filter dropped ${dropped} packets; it is ${where}`,
          cause:
            'Packets came in by another interface than their answer would leave by, such as through a second network or a tunnel.',
          remedy:
            'Run nstat -az TcpExtIPReversePathFilter again later: if it grows, set the interface to loose, such as sysctl -w net.ipv4.conf.eth1.rp_filter=2.',
        },
      ]
    },
  },
  {
    name: 'mtu',
    looksAt:
      'the MTU of each vxlan interface, and that of the interface below it; no other MTU can be proved wrong',
    run: async (node) => {
      const links = await node.kernel.links.list()
      const found: Verdict[] = []
      for (const tunnel of links)
        if (tunnel.kind === 'vxlan') found.push(...(await tooLarge(node, tunnel, links)))
      return problemsOr(found, 'no vxlan interface has a larger MTU than the interface below it carries')
    },
  },
]

/** 0 off, 1 strict, 2 loose. */
async function setting(read: (path: string) => Promise<string | undefined>, name: string): Promise<number> {
  return Number((await read(`/proc/sys/net/ipv4/conf/${name}/rp_filter`)) ?? '0')
}

/** A value of a group of /proc/net/netstat: a line of names, then a line of numbers. */
function counter(text: string, group: string, name: string): number {
  const [names = [], values = []] = text
    .split('\n')
    .filter((line) => line.startsWith(`${group}: `))
    .map((line) => line.split(' '))
  const value = values[names.indexOf(name)]
  if (value === undefined) throw new Error(`/proc/net/netstat has no counter ${name}`)
  return Number(value)
}

/** VXLAN_HEADROOM of net/vxlan.h: the headers of Ethernet, VXLAN, UDP and IPv4. IPv6 needs 20 bytes more. */
const leastHeaders = 50

async function tooLarge(node: Examined, { name }: Link, links: readonly Link[]): Promise<readonly Verdict[]> {
  const below = await numberOf(node, name, 'iflink')
  const lower = links.find(({ index }) => index === below)
  if (lower === undefined || lower.name === name) return []
  const [own, carried] = [await numberOf(node, name, 'mtu'), await numberOf(node, lower.name, 'mtu')]
  if (own === undefined || carried === undefined || own <= carried - leastHeaders) return []
  const most = carried - leastHeaders
  return [
    {
      status: 'warning',
      seen: `${name} has MTU ${own}, which is more than the ${most} that ${lower.name} below carries`,
      cause: 'Full packets to endpoints on other nodes are fragmented, or dropped where fragments are.',
      remedy: `Set the MTU of the pod network to at most ${most} in its own configuration, and start its pods again.`,
    },
  ]
}

/** undefined: this file system shows no such interface. */
async function numberOf({ read }: Examined, link: string, name: string): Promise<number | undefined> {
  const text = await read(`/sys/class/net/${link}/${name}`)
  return text === undefined ? undefined : Number(text)
}

/** The setting of all bridges, and that of one; one of them is enough. */
const bridgeFiles = [
  { family: 'ipv4', name: 'bridge-nf-call-iptables', own: 'nf_call_iptables' },
  { family: 'ipv6', name: 'bridge-nf-call-ip6tables', own: 'nf_call_ip6tables' },
] as const

export const connectionChecks: readonly Check[] = [
  {
    name: 'conntrack-drops',
    looksAt: 'the packets that connection tracking dropped, since this network namespace began',
    run: async ({ read }) => {
      const text = await read('/proc/net/stat/nf_conntrack')
      if (text === undefined) {
        if ((await read('/proc/sys/net/netfilter/nf_conntrack_count')) === undefined)
          return ok('connection tracking is not loaded')
        throw new Error('this kernel has no /proc/net/stat/nf_conntrack')
      }
      const [drop, early] = [sumOf(text, 'drop'), sumOf(text, 'early_drop')]
      if (drop === 0 && early === 0) return ok('no packet and no connection dropped')
      return [
        {
          status: 'warning',
          seen: `connection tracking dropped ${drop} packets, and ${early} connections early to make room`,
          cause: 'The connection table was full at some time, or the kernel had no memory for an entry.',
          remedy:
            'Run conntrack -S again later: if the numbers grow, raise --conntrack-max-per-core and --conntrack-min.',
        },
      ]
    },
  },
  {
    name: 'bridge-filter',
    looksAt:
      'the bridges with an address of the networks of pods; whether br_netfilter is loaded; bridge-nf-call-iptables and bridge-nf-call-ip6tables',
    run: async (node) => {
      if (repliesToNode(node)) return ok('endpoints see an address of the node, and reply to it')
      const networks = await podNetworks(node)
      if ('seen' in networks) return [networks]
      const bridges = await podBridges(node, networks)
      const found: Verdict[] = []
      for (const { family, name, own } of bridgeFiles) {
        const value = await node.read(`/proc/sys/net/bridge/${name}`)
        if (value?.trim() === '1') continue
        // Any bridge may have the pods.
        if (networks.length === 0 && value !== undefined) found.push(perhapsPassedBy(name))
        for (const bridge of bridges.filter((each) => each.family === family)) {
          const ownValue = await node.read(`/sys/class/net/${bridge.name}/bridge/${own}`)
          if (value === undefined || ownValue?.trim() !== '1') found.push(passedBy(bridge, name, value))
        }
      }
      return problemsOr(found, 'no bridge is known to pass packets of pods around the rules')
    },
  },
]

/** Whether endpoints never see the client's address: the relay connects to them itself, and masqueradeAll translates every client. */
function repliesToNode({ modes: { chosen = '' }, config }: Examined): boolean {
  const { masqueradeAll } = chosen.startsWith('nftables') ? config.nftables : config.iptables
  return chosen === 'userspace' || masqueradeAll
}

const untranslated =
  'The reply of an endpoint to a client on the same bridge is not translated back, and the client refuses it.'

/** The networks of pods are not known. */
function perhapsPassedBy(name: string): Verdict {
  return {
    status: 'warning',
    seen: `net.bridge.${name} is 0`,
    cause: untranslated,
    remedy: `If pods are on a Linux bridge, set it: sysctl -w net.bridge.${name}=1.`,
  }
}

/** `value` undefined: br_netfilter is not loaded. */
function passedBy({ name: bridge }: PodBridge, name: string, value: string | undefined): Verdict {
  const load = value === undefined ? 'modprobe br_netfilter (keep it in /etc/modules-load.d), then ' : ''
  return {
    status: 'broken',
    seen: `pods are on the bridge ${bridge}, and ${value === undefined ? 'br_netfilter is not loaded' : `net.bridge.${name} is 0`}`,
    cause: untranslated,
    remedy: `Let bridged packets pass the rules: ${load}sysctl -w net.bridge.${name}=1 (keep it in /etc/sysctl.d).`,
  }
}

/** The sum of a counter over all processors. The first line has the names; a processor has one line of hexadecimal numbers. */
function sumOf(text: string, name: string): number {
  const [names = [], ...processors] = text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/u))
  const column = names.indexOf(name)
  if (column === -1) throw new Error(`/proc/net/stat/nf_conntrack has no column ${name}`)
  return processors.reduce((sum, numbers) => sum + Number.parseInt(numbers[column] ?? '0', 16), 0)
}

/**
 * Those of the configuration, and those of the Node. Empty: the Node names none. A verdict: the configuration names none, and the API
 * server does not answer.
 */
export async function podNetworks(node: Examined): Promise<readonly Cidr[] | Verdict> {
  const { clusterCIDR } = node.config
  const answer = await nodeAnswer(node)
  if ('seen' in answer) return clusterCIDR.length === 0 && answer.status === 'unknown' ? answer : clusterCIDR
  const texts = field(field(jsonOf(answer.body), 'spec'), 'podCIDRs')
  const own = (Array.isArray(texts) ? texts : []).flatMap((text) => parseCidr(String(text)) ?? [])
  return [...clusterCIDR, ...own]
}

/** A bridge that has an address of the pods' networks of a family, as those of pods do. */
interface PodBridge {
  readonly name: string
  readonly family: IpFamily
}

/** The bridges of pods, once for each family. */
async function podBridges(
  { kernel }: Pick<Examined, 'kernel'>,
  networks: readonly Cidr[],
): Promise<readonly PodBridge[]> {
  const found: PodBridge[] = []
  for (const link of await kernel.links.list()) {
    if (link.kind !== 'bridge') continue
    for (const family of ['ipv4', 'ipv6'] as const) {
      const cursor = new AddressCursor(await kernel.routes.dumpAddresses(family, link.index))
      const isOfPods = Array.from({ length: cursor.length }, (_, index) => cursor.address(index)).some(
        (address) => networks.some((network) => cidrContains(network, address)),
      )
      if (isOfPods) found.push({ name: link.name, family })
    }
  }
  return found
}
