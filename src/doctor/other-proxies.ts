// Proxies other than kube-proxy, by the links, sets and chains that they make.
import type { Link } from '../kernel/index.js'
import { type Check, partProblemsOr, type Verdict } from './check.js'

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

export const otherProxyCheck: Check = {
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
}
