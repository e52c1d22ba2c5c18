// One table of x_tables (nat, filter, mangle, raw) of one family, in one of two flavours.
import type { IpAddress, IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { Protocol } from '../ipvs/ipvs.js'

/**
 * Where the kernel keeps a table. legacy: in ip_tables or ip6_tables, which replaces a table as a whole. nft: in the table of the same
 * name of nf_tables, as iptables-nft does. The two are independent: a packet passes through both.
 */
export type XtFlavour = 'legacy' | 'nft'

export type XtTableName = 'nat' | 'filter' | 'mangle' | 'raw'

/** The built-in chains of the kernel. */
export type XtHook = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING'

/** The hooks of each table, in the kernel's order. */
export const xtHooks: Readonly<Record<XtTableName, readonly XtHook[]>> = {
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  raw: ['PREROUTING', 'OUTPUT'],
}

/** Bits of the conntrack match's state mask (linux/netfilter/xt_conntrack.h; IP_CT_* + 1). */
export const XtState = {
  invalid: 0x01,
  established: 0x02,
  related: 0x04,
  new: 0x08,
  /** The connection has a translated destination. */
  dnat: 0x80,
  /** NOTRACK. */
  untracked: 0x100,
} as const

/** XT_ADDRTYPE_LOCAL (linux/netfilter/xt_addrtype.h). */
export interface XtAddressType {
  readonly of: 'source' | 'destination'
  readonly isInverted?: boolean
}

export interface XtNetwork {
  readonly address: IpAddress
  readonly prefixLength: number
  readonly isInverted?: boolean
}

export interface XtInterface {
  /** A name, or a prefix of names that ends in `+`. At most 15 characters. */
  readonly name: string
  readonly isInverted?: boolean
}

/** The `recent` match: addresses seen, by source. */
export interface XtRecent {
  /** List in /proc/net/xt_recent; at most 200 bytes. */
  readonly list: string
  /** `set` adds the source and always matches; `check` matches sources added within `seconds` and removes older ones. */
  readonly action: 'set' | 'check'
  readonly seconds?: number
}

export interface XtSet {
  readonly name: string
  /** The side of the packet for each dimension of the set. */
  readonly directions: readonly ('src' | 'dst')[]
  readonly isInverted?: boolean
}

export type XtTarget =
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  | { readonly kind: 'accept' | 'drop' | 'return' }
  /** Sets the bits `value` of `mask`: new = (old & ~mask) ^ value. `or 0x4000` is value 0x4000, mask 0x4000; `xor` has mask 0. */
  | { readonly kind: 'mark'; readonly value: number; readonly mask: number }
  | { readonly kind: 'dnat'; readonly address: IpAddress; readonly port: number }
  | { readonly kind: 'masquerade'; readonly isRandomFully: boolean }
  /** Takes the packet's mark from the set's entry; without an entry the mark stays. Only in table mangle, in rules without `set`. */
  | { readonly kind: 'map-mark'; readonly set: XtSet }
  /** ICMP (ICMPv6) port unreachable. */
  | { readonly kind: 'reject' }

/** One rule. All its matches must hold. */
export interface XtRule {
  readonly source?: XtNetwork
  readonly destination?: XtNetwork
  readonly inInterface?: XtInterface
  readonly outInterface?: XtInterface
  readonly protocol?: Protocol
  /** Inclusive; only with a protocol. */
  readonly sourcePorts?: readonly [number, number]
  readonly destinationPorts?: readonly [number, number]
  readonly mark?: { readonly value: number; readonly mask: number; readonly isInverted?: boolean }
  readonly state?: { readonly bits: number; readonly isInverted?: boolean }
  /**
   * The packet makes the connection: conntrack enters it after the packet has passed all hooks, and only such packets pass table nat
   * (IPS_CONFIRMED of linux/netfilter/nf_conntrack_common.h).
   */
  readonly isUnconfirmed?: boolean
  readonly addressType?: XtAddressType
  readonly set?: XtSet
  /** The packet's source equals its destination (a bpf match): after DNAT, a client that reaches itself. */
  readonly isSourceDestination?: boolean
  readonly recent?: XtRecent
  /** Probability that the rule matches, between 0 and 1 (both excluded). */
  readonly probability?: number
  readonly comment?: string
  readonly target: XtTarget
}

/**
 * Whether the comment is the last match of a rule. Else it is the first one. kubelet and kube-proxy order the matches so, and
 * `iptables -C`, by which they look for their rules, compares the order.
 */
export function hasLateComment({ kind }: XtTarget): boolean {
  return kind === 'jump' || kind === 'goto'
}

/** Operations. All operations of one batch become visible to packets at once. */
export interface XtOps {
  /** The chain becomes Viaduct's, with exactly these rules. Unchanged rules keep their counters. At most 28 characters. */
  'set-chain': { readonly chain: string; readonly rules: readonly XtRule[] }
  /** Does nothing if the chain is absent. */
  'remove-chain': { readonly chain: string }
  /**
   * Viaduct's rules in a built-in chain. Rules that are present in this order stay in their place. Otherwise they move to the head.
   * Other rules of the hook that jump to Viaduct's chains are removed.
   */
  'set-hook': { readonly chain: XtHook; readonly rules: readonly XtRule[] }
}
export type XtOp = { readonly [K in keyof XtOps]: { readonly op: K } & XtOps[K] }[keyof XtOps]

export interface XtApplyOptions {
  /**
   * Chains of a former owner. Chains with matching names that were not set are removed as by `remove-chain`, with the jumps to
   * them from hooks. `KUBE-SERVICES`: this name. `KUBE-SVC-*`: this prefix. `KUBE-MARK-DROP?`: this name, if the chain has no rules
   * and no chain of another program jumps to it. Default: none.
   */
  readonly prune?: readonly string[]
  /** Longest wait for the lock of other programs. Default 5 s. Flavour nft has no lock. */
  readonly lockTimeoutMs?: number
}

export interface XtOutcome {
  /** False: the kernel's table was already as desired and was not written. */
  readonly isWritten: boolean
  /** Of the whole table, foreign entries included. Flavour nft: 0, because it does not read the whole table. */
  readonly entries: number
  readonly bytes: number
  /** Number of times that another program changed the table between read and write. */
  readonly repeats: number
  readonly lockWaitMs: number
  /** All chains that should be removed but are still in use. They have no rules. The apply after the last jump removes them. */
  readonly kept: readonly XtKeptChain[]
}

/** A chain of Viaduct or of a former owner that should be removed while a chain of another program jumps to it. */
export interface XtKeptChain {
  readonly chain: string
  /** The chain that jumps to it. Absent: an element of a map of nf_tables jumps to it. */
  readonly by?: string
}

/** A rule that the kernel refuses. */
export interface XtRefusal {
  /** The chain or hook of the desired rule. */
  readonly chain: string
  /** Index of the rule in the chain; in a hook, among Viaduct's rules. */
  readonly rule: number
  readonly error: KernelError
}

/** Differences of Viaduct's chains, rules and hooks from the desired ones, by name. Empty lists: no difference. */
export interface XtDrift {
  readonly missing: readonly string[]
  readonly changed: readonly string[]
}

/** A built-in chain. */
export interface XtHookPlace extends Pick<Xtables, 'family' | 'table'> {
  readonly hook: XtHook
}

/** Where a built-in chain drops or rejects every packet that no earlier rule has accepted. */
export interface XtBarrier {
  /** Index of the rule in the chain; of a policy: the number of rules. */
  readonly rule: number
  /** False: a rule without matches drops or rejects. */
  readonly isPolicy: boolean
}

export interface XtChainSummary {
  readonly chain: string
  /** Absent in flavour nft, where a count takes a request for each chain. */
  readonly rules?: number
}

/**
 * Packet counts of the rules of some chains, which are numbered in the order in which the caller named them. Reading it creates no object
 * per chain. The iterator makes a list per chain, for callers that name few.
 */
export interface RulePackets extends Iterable<readonly number[]> {
  /** Number of rules; 0: the chain is empty or absent. */
  sizeOf(chain: number): number
  /** The packets of a rule, from the end if the number is negative; undefined: there is no such rule. */
  at(chain: number, rule: number): number | undefined
}

/**
 * A table and its desired content. `apply` changes the desired content, then programs the kernel. Everything else in the table stays
 * byte for byte, in its order, with its counters.
 */
export interface Xtables {
  readonly family: IpFamily
  readonly table: XtTableName
  /**
   * Makes the kernel load the modules that the rules of these operations need. Changes nothing. The named sets need not exist.
   * `apply` reports missing modules. Flavour nft only checks the operations: the kernel loads the modules of a rule when it gets it.
   */
  load(ops: readonly XtOp[]): Promise<void>
  /** Changes only the desired content; the next `apply` programs it. Splits a large change into several calls. */
  stage(ops: readonly XtOp[]): Promise<void>
  /**
   * Throws KernelError. ENOPROTOOPT or ENOENT: no legacy x_tables; in flavour nft, EINVAL or EPROTONOSUPPORT: no nf_tables. EAGAIN:
   * another program held the lock or kept changing the table. The operations stay desired after an error: a later `apply`, even
   * without operations, programs them.
   */
  apply(ops: readonly XtOp[], options?: XtApplyOptions): Promise<XtOutcome>
  /**
   * After a failed `apply`: the desired rules that cannot be encoded (a missing match, target or set); if all can be, those that the
   * kernel refuses when it checks a table. Empty: no single rule is the cause. Changes nothing. The work grows with the number of
   * desired rules. One call finds a limited number of refusals: remove these rules and call again for the rest.
   */
  refusals(): Promise<readonly XtRefusal[]>
  /**
   * A cheap check. False: the table has certainly changed since the last `apply`. Legacy: one system call, which finds a change of the
   * table's size. nft: one request while no program changes nf_tables; else it reads Viaduct's chains and the base chains, and is false if
   * they differ from the desired content.
   */
  check(): Promise<boolean>
  /** Compares Viaduct's part of the kernel's table with the desired content. Writes nothing. */
  compare(): Promise<XtDrift>
  /**
   * The differences that other programs made and that `apply` repaired since the last call, also an `apply` of another caller. A difference
   * of a chain or hook that an operation has named since the table was last as desired does not count.
   */
  takeRepairs(): XtDrift
  /** All user chains, foreign ones included. */
  chains(): Promise<readonly XtChainSummary[]>
  /**
   * Packet counts of the rules of these chains. Reads the whole table once; flavour nft reads these chains. It neither waits for the lock
   * nor delays other calls by more than its requests.
   */
  packets(chains: readonly string[]): Promise<RulePackets>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
