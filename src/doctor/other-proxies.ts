// Proxies other than kube-proxy, by the links and sets that they make.
import type { Link } from '../kernel/index.js'
import { type Check, partProblemsOr, type Verdict } from './check.js'

interface Sign {
  readonly kind: 'link' | 'set'
  readonly name: string
  /** The program that makes it, and what that proves; a clause. */
  readonly seen: string
  /** `unknown`: the object is there with and without a proxy for Services. */
  readonly status: 'broken' | 'unknown'
  readonly remedy: string
}

const signs: readonly Sign[] = [
  {
    kind: 'link',
    name: 'kube-dummy-if',
    seen: 'kube-router serves Services',
    status: 'broken',
    remedy: 'Run kube-router with --run-service-proxy=false, then kube-router --cleanup-config.',
  },
  {
    kind: 'link',
    name: 'bpfin.cali',
    seen: 'the eBPF data plane of Calico serves Services',
    status: 'broken',
    remedy: 'Turn the eBPF data plane of Calico off, or do not run Viaduct on this node.',
  },
  {
    kind: 'set',
    name: 'ANTREA-NODEPORT-IP',
    seen: 'Antrea serves all Services (proxyAll)',
    status: 'broken',
    remedy: 'Set antreaProxy.proxyAll to false in the configuration of Antrea.',
  },
  {
    kind: 'link',
    name: 'cilium_host',
    seen: 'Cilium runs; whether its kube-proxy replacement is on cannot be seen here',
    status: 'unknown',
    remedy:
      'Look at KubeProxyReplacement of cilium-dbg status: with Viaduct it must be off (kubeProxyReplacement=false).',
  },
]

export const otherProxyCheck: Check = {
  name: 'other-proxies',
  looksAt: 'links and sets that kube-router, the eBPF data plane of Calico, Antrea and Cilium make',
  run: async (node) => {
    const { kernel } = node
    const names = {
      link: new Set((await kernel.links.list()).map(({ name }: Link) => name)),
      set: new Set((await kernel.ipset.sets()).map(({ name }) => name)),
    }
    return partProblemsOr(
      node,
      'ip_set',
      signs
        .filter(({ kind, name }) => names[kind].has(name))
        .map(({ kind, name, seen, status, remedy }): Verdict => ({
          status,
          seen: `there is the ${kind} ${name}: ${seen}`,
          cause: 'Two programs that translate connections to Services take them from each other.',
          remedy,
        })),
      'no sign of another proxy',
    )
  },
}
