// The names of the chains in nf_tables: by them a kube-proxy that works through iptables-nft is recognised.
import type { IpFamily } from '../address.js'

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
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
