// Other proxies on the node: processes of kube-proxy, the objects that they left, and the links, sets and chains of other programs.
import type { XtFlavour, Link } from '../kernel/index.js'
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
  {
    name: 'other-proxies',
    looksAt: 'links, sets and chains that kube-router, the eBPF data plane of Calico, Antrea and Cilium make',
    run: async (node) => {
      const { kernel } = node
      const names = {
        link: new Set((await kernel.links.list()).map(({ name }: Link) => name)),
        set: new Set((await kernel.ipset.sets()).map(({ name }) => name)),
        chain: new Set((await kernel.activeChains()).map(({ table, chain }) => `${table} ${chain}`)),
      }
      const found = signs.flatMap((sign) => {
        const name = sign.names.find((each) => names[sign.kind].has(each))
        return name === undefined ? [] : [{ ...sign, name }]
      })
      return partProblemsOr(
        node,
        ['ip_set', 'nf_tables'],
        found.map(({ kind, name, seen, status, remedy }): Verdict => ({
          status,
          seen: `there is the ${kind} ${name}: ${seen}`,
          cause: 'Two programs that translate connections to Services take them from each other.',
          remedy,
        })),
        'no sign of another proxy',
      )
    },
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

interface Sign {
  /** `chain`: a chain of nf_tables by its table and name. */
  readonly kind: 'link' | 'set' | 'chain'
  /** Each of them is the sign. */
  readonly names: readonly string[]
  /** The program that makes it, and what that proves; a clause. */
  readonly seen: string
  /** `unknown`: the object is there with and without a proxy for Services. */
  readonly status: 'broken' | 'unknown'
  readonly remedy: string
}

const disableProxyAll = 'Set antreaProxy.proxyAll to false in the configuration of Antrea'

/**
 * The names are those in the sources of the programs: kube-router's pkg/controllers/proxy, Calico's felix/dataplane/linux/dataplanedefs,
 * Antrea's pkg/agent/route and pkg/agent/util/nftables, Cilium's pkg/defaults.
 */
const signs: readonly Sign[] = [
  {
    kind: 'link',
    names: ['kube-dummy-if'],
    seen: 'kube-router serves Services',
    status: 'broken',
    remedy: 'Run kube-router with --run-service-proxy=false, then kube-router --cleanup-config.',
  },
  {
    kind: 'link',
    // Absent with bpfConnectTimeLoadBalancing=Enabled, which is not the default.
    names: ['bpfin.cali'],
    seen: 'the eBPF data plane of Calico serves Services',
    status: 'broken',
    remedy: 'Turn the eBPF data plane of Calico off, or do not run Viaduct on this node.',
  },
  {
    kind: 'set',
    names: ['ANTREA-NODEPORT-IP', 'ANTREA-NODEPORT-IP6'],
    seen: 'Antrea serves all Services (proxyAll), or did before',
    status: 'broken',
    remedy: `${disableProxyAll}, then destroy the set (ipset destroy) or restart the node: Antrea leaves it.`,
  },
  {
    kind: 'chain',
    // Antrea with nftables instead of iptables
    names: ['antrea nat-prerouting-proxy-all'],
    seen: 'Antrea serves all Services (proxyAll)',
    status: 'broken',
    remedy: `${disableProxyAll}.`,
  },
  {
    kind: 'link',
    names: ['cilium_host'],
    seen: 'Cilium runs; whether its kube-proxy replacement is on cannot be seen here',
    status: 'unknown',
    remedy:
      'Look at KubeProxyReplacement of cilium-dbg status: with Viaduct it must be off (kubeProxyReplacement=false).',
  },
]
