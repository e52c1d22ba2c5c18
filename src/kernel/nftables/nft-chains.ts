// The names of the chains in nf_tables: by them a kube-proxy that works through iptables-nft is recognised, and the table of one in
// nftables mode can be deleted. The layer of compatibility also brings the modules of the legacy tables.
import type { IpFamily } from '../../address.js'

export interface NftChain {
  /** `nat`, `filter`: iptables-nft names its tables as the legacy ones are named. */
  readonly table: string
  readonly chain: string
}

export interface NftChains {
  /**
   * Every chain of the family's tables (`ip` or `ip6`, not `inet`), whoever made it; empty also where the kernel has no
   * nf_tables. Throws KernelError. NB: asking makes the kernel load the module where there is one.
   */
  list(family: IpFamily): Promise<readonly NftChain[]>
  /**
   * Deletes a table of the family with all that is in it, whoever made it. False: there was none, also where the kernel has no
   * nf_tables. Throws KernelError. NB: asking makes the kernel load the module where there is one.
   */
  discardTable(family: IpFamily, table: string): Promise<boolean>
  /**
   * Asks for what the kernel looks for in ip_tables or ip6_tables, so that it loads that module by itself; nobody here
   * executes modprobe. Resolves as well where none came: that shows in the tables. Throws KernelError.
   */
  loadXtables(family: IpFamily): Promise<void>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
