// Other proxies on the node: processes, and the objects that they left.
import type { XtFlavour } from '../kernel/index.js'
import { type Check, type Examined, ok, partProblemsOr, type Verdict } from './check.js'

const proxyName = 'kube-proxy'
const unseen = {
  status: 'unknown',
  cause: 'A kube-proxy and Viaduct change the same rules, and each undoes the work of the other.',
} as const
const hiddenProcesses: Verdict = {
  ...unseen,
  seen: 'no kube-proxy runs in this PID namespace, and /proc hides the processes of others',
  remedy:
    "Run the doctor with the host's processes (hostPID), or look on the node: pgrep kube-proxy (the only way on a node that is itself a container, such as one of kind).",
}

/** Chains that kube-proxy, and Viaduct in the same mode, have. */
const serviceChain = /^KUBE-(?:SERVICES|NODEPORTS|NODE-PORT|LOAD-BALANCER|SVC-.*|SEP-.*)$/u

export const proxyChecks: readonly Check[] = [
  {
    name: 'kube-proxy-process',
    looksAt: 'processes named kube-proxy in this network namespace',
    run: async ({ processes, unplacedProcesses, seesAllProcesses }) => {
      const found = processes
        .filter((each) => each.name === proxyName)
        .map(({ pid }): Verdict => ({
          status: 'broken',
          seen: `kube-proxy runs (pid ${pid})`,
          cause: 'It and Viaduct change the same rules, and each undoes the work of the other.',
          remedy: 'Stop kube-proxy on this node before the agent starts (docs/installing.md).',
        }))
      if (found.length > 0) return found
      const unplaced = unplacedProxies(unplacedProcesses)
      if (unplaced.length > 0) return unplaced
      return seesAllProcesses ? ok('no kube-proxy runs') : [hiddenProcesses]
    },
  },
  {
    name: 'leftovers',
    looksAt:
      'chains in both flavours, tables named kube-proxy and virtual servers that the chosen mode does not use',
    run: async (node) =>
      partProblemsOr(
        node,
        ['nf_tables'],
        [...(await leftChains(node)), ...(await leftTables(node)), ...(await leftServers(node))],
        'no objects of another mode',
      ),
  },
]

/** Processes that may be a kube-proxy of this network namespace. The kernel hides their namespaces more strictly than their names. */
function unplacedProxies(processes: Examined['unplacedProcesses']): readonly Verdict[] {
  const named = processes.find((each) => each.name === proxyName)
  const nameless = processes.filter((each) => each.name === '').length
  if (named === undefined && nameless === 0) return []
  return [
    {
      ...unseen,
      seen:
        named === undefined
          ? `this process may not read the names of ${nameless} processes`
          : `kube-proxy runs (pid ${named.pid}), and this process may not read in which network namespace`,
      remedy: 'Give the doctor the capability CAP_SYS_PTRACE, or look on the node: pgrep kube-proxy.',
    },
  ]
}

/** The chains of the flavour that the mode itself uses are not counted: its tables may be large. */
async function leftChains({
  kernel,
  modes: { chosen = '', flavour },
}: Examined): Promise<readonly Verdict[]> {
  const hasChains = chosen.startsWith('iptables') || chosen.startsWith('ipvs')
  const found = new Map<XtFlavour, number>()
  for (const family of ['ipv4', 'ipv6'] as const) {
    if (!hasChains || flavour !== 'nft') {
      const chains = (await kernel.nftChains.list(family)).filter(({ table }) => table === 'nat')
      count(found, 'nft', chains)
    }
    if (hasChains && flavour === 'legacy') continue
    if (!(await kernel.activeTables(family, 'legacy')).includes('nat')) continue
    count(found, 'legacy', await kernel.xtables(family, 'nat', 'legacy').chains())
  }
  return [...found].map(([each, chains]) => ({
    status: 'warning',
    seen: `${chains} chains of kube-proxy in ${each === 'nft' ? 'nf_tables (iptables-nft)' : 'the legacy tables'}`,
    cause: 'Until they are removed they send connections to the endpoints of their last sync.',
    remedy: 'Start the agent, which removes them after its first sync, or run viaduct --cleanup.',
  }))
}

function count(
  found: Map<XtFlavour, number>,
  flavour: XtFlavour,
  chains: readonly { readonly chain: string }[],
): void {
  const ours = chains.filter(({ chain }) => serviceChain.test(chain)).length
  if (ours > 0) found.set(flavour, (found.get(flavour) ?? 0) + ours)
}

/** nftables mode, and iptables mode of the flavour nft, have the table. */
async function leftTables({ kernel, modes: { chosen } }: Examined): Promise<readonly Verdict[]> {
  if (chosen === 'nftables' || chosen === 'iptables (nft)') return []
  const chains = (await kernel.activeChains()).filter(({ table }) => table === proxyName)
  if (chains.length === 0) return []
  return [
    {
      status: 'warning',
      seen: `nf_tables has a table ${proxyName} with ${chains.length} chains`,
      cause: 'A proxy in nftables mode left it, and it still translates connections to Services.',
      remedy: 'Start the agent, which removes it after its first sync, or run viaduct --cleanup.',
    },
  ]
}

/** Read from a file, because a request would load the module. Without sets and device of kube-proxy, other programs made them. */
async function leftServers({ kernel, read, modes: { chosen = '' } }: Examined): Promise<readonly Verdict[]> {
  if (chosen.startsWith('ipvs')) return []
  const text = (await read('/proc/net/ip_vs')) ?? ''
  const servers = text.split('\n').filter((line) => /^(?:TCP|UDP|SCTP|FWM) /u.test(line)).length
  if (servers === 0) return []
  const hasSets = (await kernel.ipset.sets()).some(({ name }) => name.startsWith('KUBE-'))
  if (!hasSets && (await kernel.links.find('kube-ipvs0')) === undefined) return []
  return [
    {
      status: 'warning',
      seen: `IPVS has ${servers} virtual servers, and there are the sets or the device of a proxy in ipvs mode`,
      cause: 'Those that the proxy left take the connections to their addresses.',
      remedy:
        'Start the agent, which removes those of kube-proxy, or run viaduct --cleanup; both leave those of other programs.',
    },
  ]
}
