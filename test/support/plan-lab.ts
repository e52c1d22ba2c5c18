// Plans and starts in a network namespace, and the state that a plan could change.
import { join } from 'node:path'
import type { KernelOperation } from '../../src/inspect/index.js'
import type { Namespace } from './namespaces.js'
import { treeRoot } from './tree.js'

export const modes = {
  nftables: ['--proxy-mode=nftables'],
  'iptables legacy': ['--proxy-mode=iptables', '--iptables-flavour=legacy'],
  'iptables nft': ['--proxy-mode=iptables', '--iptables-flavour=nft'],
  'ipvs legacy': ['--proxy-mode=ipvs', '--iptables-flavour=legacy'],
  'ipvs nft': ['--proxy-mode=ipvs', '--iptables-flavour=nft'],
  userspace: ['--proxy-mode=userspace'],
} as const
export type PlannedMode = keyof typeof modes

const flags = [
  `--manifests=${join(treeRoot, 'examples/shop')}`,
  '--hostname-override=node-a',
  '--cluster-cidr=10.244.0.0/16,fd00:10:244::/56',
]

/**
 * Gives the namespace the node's addresses. Resolves when the kernel has made the route of the IPv6 address, which it does in a work
 * queue.
 */
export async function addNodeAddresses(node: Namespace): Promise<void> {
  await node.ip('address add 192.0.2.10/24 dev lo', 'address add 2001:db8:1::10/64 dev lo nodad')
  const hasRoute = 'ip -6 route show table local | grep -q 2001:db8:1::10'
  await node.must('sh', '-c', `for try in $(seq 1000); do ${hasRoute} && exit 0; done; exit 1`)
}

/** The operations of a plan, or of a real start, as `plan-program.ts` prints them. `more`: flags that replace those of the lab. */
export async function operationsOf(
  task: 'plan' | 'start',
  node: Namespace,
  mode: PlannedMode,
  ...more: readonly string[]
): Promise<readonly KernelOperation[]> {
  const program = join(treeRoot, 'out/ts/test/support/plan-program.js')
  const output = await node.must(process.execPath, program, task, ...flags, ...modes[mode], ...more)
  const operations: readonly KernelOperation[] = JSON.parse(output)
  return operations
}

/** Everything that a plan could change in the namespace. Counters and ages are left out. */
export async function stateOf(node: Namespace): Promise<string> {
  return await node.must('sh', '-c', dumps.join('; '))
}

const dumps = [
  'nft --stateless list ruleset',
  'cat /proc/net/ip_tables_names /proc/net/ip6_tables_names',
  // The tools would make the tables that are absent.
  'for table in $(cat /proc/net/ip_tables_names); do iptables-legacy-save -t $table | grep -v "^#"; done',
  'for table in $(cat /proc/net/ip6_tables_names); do ip6tables-legacy-save -t $table | grep -v "^#"; done',
  'ipset save',
  'ip -4 route show table all',
  'ip -6 route show table all',
  'ip -brief link',
  'ip -brief address',
  'ipvsadm --save --numeric 2>/dev/null || true',
  'ss --all --numeric --no-header --tcp --udp',
  'sysctl --all --pattern "^net" 2>/dev/null | grep -v -e nf_conntrack_count -e random -e "stat"',
]

/** The loaded modules of the kernel; empty: it has none. Some tools of `stateOf` make the kernel load modules. */
export async function loadedModules(node: Namespace): Promise<string> {
  return await node.must('sh', '-c', 'cut -d " " -f 1 /proc/modules 2>/dev/null | sort')
}

/** Sorted: both families run at the same time. */
export function linesOf(operations: readonly KernelOperation[]): readonly string[] {
  return operations.map(({ tool, table = '', text }) => withoutSlots(`${tool} ${table} ${text}`)).toSorted()
}

/** The text of rules without the numbers of endpoints with session affinity: each agent draws its own. */
export function withoutSlots(text: string): string {
  return text.replaceAll(/meta mark & (0x[\da-f]+) \| \1/gu, 'slot')
}
