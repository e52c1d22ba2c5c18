// One table of legacy x_tables (nat, filter, mangle, raw) of one family: what we own of it, written by whole-table replacement.
import type { IpAddress, IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { Protocol } from '../ipvs/ipvs.js'

export type XtTableName = 'nat' | 'filter' | 'mangle' | 'raw'

/** Chains of the kernel that packets enter by themselves. */
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
  /** The destination of the connection was rewritten. */
  dnat: 0x80,
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
  /** `set` enters the source and always matches; `check` matches who was entered within `seconds`, and forgets older ones. */
  readonly action: 'set' | 'check'
  readonly seconds?: number
}

export interface XtSet {
  readonly name: string
  /** Which side of the packet each dimension of the set is taken from. */
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
  /** The packet's mark becomes that of the set's entry; without an entry it stays. Possible in table mangle, and in a rule without `set`. */
  | { readonly kind: 'map-mark'; readonly set: XtSet }
  /** ICMP (ICMPv6) port unreachable. */
  | { readonly kind: 'reject' }

/** One rule: every match that is present must hold. */
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
  readonly addressType?: XtAddressType
  readonly set?: XtSet
  /** The packet's source is its destination (a bpf match): after DNAT, a client that was sent to itself. */
  readonly isSourceDestination?: boolean
  readonly recent?: XtRecent
  /** Chance from 0 to 1 (exclusive) that the rule matches. */
  readonly probability?: number
  readonly comment?: string
  readonly target: XtTarget
}

/** Every operation of a batch. All of one batch become visible to packets at once. */
export interface XtOps {
  /** Makes the chain ours with exactly these rules; counters of rules that stay are kept. At most 28 characters. */
  'set-chain': { readonly chain: string; readonly rules: readonly XtRule[] }
  /** Absent: nothing to do. */
  'remove-chain': { readonly chain: string }
  /**
   * The rules of ours in a chain of the kernel. Present ones in this order stay where they are; otherwise they are taken
   * out and put at the head. Rules of a hook that jump to chains of ours and are not named here are removed.
   */
  'set-hook': { readonly chain: XtHook; readonly rules: readonly XtRule[] }
}
export type XtOp = { readonly [K in keyof XtOps]: { readonly op: K } & XtOps[K] }[keyof XtOps]

export interface XtApplyOptions {
  /**
   * Chains of a former owner: those whose names match and that were not set count as ours and go, as after `remove-chain`,
   * with the jumps to them from hooks. `KUBE-SERVICES`: this name; `KUBE-SVC-*`: names that begin so; `KUBE-MARK-DROP?`: this
   * name, while the chain has no rules and no chain of another program jumps to it. Default: none.
   */
  readonly prune?: readonly string[]
  /** How long to wait for the lock of other programs. Default 5 s. */
  readonly lockTimeoutMs?: number
}

export interface XtOutcome {
  /** False: the kernel's table was right already, and was not written. */
  readonly isWritten: boolean
  /** Of the whole table, foreign ones included. */
  readonly entries: number
  readonly bytes: number
  /** Times that another program changed the table between our reading and writing. */
  readonly repeats: number
  readonly lockWaitMs: number
  /** Chains that should go and cannot, all that there are. They have no rules; the apply after the last jump removes them. */
  readonly kept: readonly XtKeptChain[]
}

/** A chain of ours, or of a former owner, that should go, and that a chain of another program jumps to. */
export interface XtKeptChain {
  readonly chain: string
  /** The chain that jumps to it. */
  readonly by: string
}

/** A rule that the kernel does not take. */
export interface XtRefusal {
  /** The chain or hook as it is wanted. */
  readonly chain: string
  /** Place of the rule in it, from 0; in a hook, among the rules of ours. */
  readonly rule: number
  readonly error: KernelError
}

/** What somebody else did to chains, rules and hooks of ours, by name. Empty lists: nothing. */
export interface XtDrift {
  readonly missing: readonly string[]
  readonly changed: readonly string[]
}

export interface XtChainSummary {
  readonly chain: string
  readonly rules: number
}

/**
 * A table and what we want of it. The wanted state is kept in native memory: `apply` changes it and then makes the kernel
 * equal to it. Everything else in the table stays byte for byte, in its order, with its counters.
 */
export interface Xtables {
  readonly family: IpFamily
  readonly table: XtTableName
  /**
   * Has the kernel load the modules that the rules of such operations need; changes nothing. The sets that they name need not be there.
   * What is lacking is told to who applies them.
   */
  load(ops: readonly XtOp[]): Promise<void>
  /** Changes what is wanted, and no more: the next `apply` brings it about. So a large change need not be one call. */
  stage(ops: readonly XtOp[]): Promise<void>
  /**
   * Throws KernelError; ENOPROTOOPT or ENOENT: no legacy x_tables here; EAGAIN: another program held the lock or kept
   * changing the table. What was wanted stays wanted: a later apply, of no operations too, brings it about.
   */
  apply(ops: readonly XtOp[], options?: XtApplyOptions): Promise<XtOutcome>
  /**
   * After an `apply` that failed: the wanted rules that cannot be encoded (a missing match, target or set); where there are none, those
   * that the kernel refuses when it checks a table. Empty: no single rule is at fault. Changes nothing. The work grows with what is
   * wanted. After many refusals, the rest is found by the next call, when the rules of this one are not wanted any more.
   */
  refusals(): Promise<readonly XtRefusal[]>
  /** The cheap check (one system call): false when the table cannot be as we left it. */
  check(): Promise<boolean>
  /** The full comparison of what is ours with what the kernel has; writes nothing. */
  compare(): Promise<XtDrift>
  /** All chains but those of the kernel, whoever made them. */
  chains(): Promise<readonly XtChainSummary[]>
  /**
   * How many packets each rule of these chains has met: a list per chain, in the chain's order, empty where there is no such chain or no
   * rule in it. Reads the whole table once. It neither waits for other calls nor delays them.
   */
  packets(chains: readonly string[]): Promise<readonly (readonly number[])[]>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
