// The modules of the kernel that belong together: one without the others is of no use.
import type { IpFamily } from '../../address.js'

/** The legacy tables nat and filter of a family. */
export const legacyModules: Readonly<Record<IpFamily, readonly string[]>> = {
  ipv4: ['x_tables', 'ip_tables', 'iptable_nat', 'iptable_filter'],
  ipv6: ['x_tables', 'ip6_tables', 'ip6table_nat', 'ip6table_filter'],
}

/** The table mangle beside them. */
export const mangleModules: Readonly<Record<IpFamily, string>> = {
  ipv4: 'iptable_mangle',
  ipv6: 'ip6table_mangle',
}

/** Rules of x_tables in nf_tables: the modules that the question for nft_compat needs. */
export const compatModules: readonly string[] = ['nf_tables', 'x_tables', 'nft_compat', 'xt_comment']

/** The sets of ipvs mode, and the rules that read them. */
export const setModules: readonly string[] = ['ip_set', 'xt_set'].concat(
  ['bitmap_port', 'hash_ip', 'hash_ipport', 'hash_ipportip', 'hash_ipportnet'].map(
    (type) => `ip_set_${type}`,
  ),
)

/** The extensions of the rules of iptables and ipvs mode, by their names since Linux 5.2. An older kernel has some of them in other modules. */
export const extensionModules: readonly string[] = [
  'xt_addrtype',
  'xt_comment',
  'xt_conntrack',
  'xt_mark',
  'xt_MASQUERADE',
  'xt_nat',
  'xt_recent',
  'xt_statistic',
  'xt_tcpudp',
  'ipt_REJECT',
  'ip6t_REJECT',
]
