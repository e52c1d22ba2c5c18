// Connections that the kernel lost, and bridged packets that pass no rules.
import { type Check, type Examined, ok, problemsOr, type Verdict } from './check.js'
import { type PodBridge, podBridges, podNetworks } from './pod-networks.js'

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
