// Chain names in nf_tables: they show a kube-proxy that uses iptables-nft. The table of a kube-proxy in nftables mode can be deleted.
// The compatibility layer of nf_tables also loads the modules of the legacy tables.
import type { IpFamily } from '../../address.js'

export interface NftChain {
  /** `nat`, `filter`: iptables-nft uses the names of the legacy tables. */
  readonly table: string
  readonly chain: string
}

export interface NftChains {
  /**
   * All chains of the family's tables (`ip` or `ip6`, not `inet`), of any program; empty too if the kernel has no nf_tables. Throws
   * KernelError. NB: the request makes the kernel load nf_tables if the module is available.
   */
  list(family: IpFamily): Promise<readonly NftChain[]>
  /**
   * Deletes a table of the family with its content, of any program. False: the table was absent, or the kernel has no nf_tables.
   * Throws KernelError. NB: the request makes the kernel load nf_tables if the module is available.
   */
  discardTable(family: IpFamily, table: string): Promise<boolean>
  /**
   * Makes the kernel load ip_tables or ip6_tables by a request that it looks up there. Viaduct does not run modprobe. Resolves even
   * if no module was loaded: the tables show it. Throws KernelError.
   */
  loadXtables(family: IpFamily): Promise<void>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
