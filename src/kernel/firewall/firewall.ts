// Rules of any program at the hooks at which firewalls drop packets, and those that change the packet mark before.
import type { IpFamily } from '../../address.js'
import type { XtFlavour, XtRule } from '../xtables/xtables.js'

export type FirewallHook = 'prerouting' | 'input' | 'forward' | 'output'

/** The treatment of the packets that a rule matches. `unknown`: it may end their way, or not. */
export type FirewallVerdict =
  | 'accept'
  | 'drop'
  | 'reject'
  | 'return'
  | 'continue'
  | 'unknown'
  | { readonly chain: string; readonly isGoto: boolean }

/** A change of the packet mark: the new one is (old & ~mask) ^ value. */
export interface MarkChange {
  readonly mask: number
  /** undefined: not known. */
  readonly value: number | undefined
}

/** A rule of any program, as far as it can be decoded. */
export interface FirewallRule {
  /** The rule as a tool lists it, made when it is read. A rule of a form that is not known has a description in brackets. */
  readonly text: string
  /** The matches that are known. */
  readonly matches: Omit<XtRule, 'target'>
  /** A protocol by its number. */
  readonly protocol?: { readonly number: number; readonly isInverted: boolean }
  /** Whether the rule has no other matches. */
  readonly isWhole: boolean
  readonly verdict: FirewallVerdict
  /** Absent: the rule leaves the packet mark. */
  readonly mark?: MarkChange
}

/** The place at which packets enter a chain. */
export interface FirewallEntrance {
  readonly hook: FirewallHook
  /** Packets pass the chains of a hook in the order of these priorities. That of a chain of type nat is `natPriority`. */
  readonly priority: number
  /** The priority that a chain of type nat has itself: the order of such chains among themselves. Absent: it is of another type. */
  readonly natOrder?: number
}

/** The reading of `Kernel.firewall`. */
export interface FirewallScope {
  /** Tables of nf_tables that do not count. */
  readonly isLeftOut: (table: string) => boolean
  /** Whether the legacy table nat counts too, which drops no packet, but may change the packet mark. */
  readonly hasMarks: boolean
}

/** A chain of a table that is in force. */
export interface FirewallChain {
  readonly flavour: XtFlavour
  /** inet: the chain sees packets of both families. */
  readonly family: IpFamily | 'inet'
  readonly table: string
  readonly chain: string
  /** Absent: packets come only from other chains. */
  readonly entrance?: FirewallEntrance
  /** False: packets that no rule accepts are dropped. */
  readonly accepts: boolean
  /** Throws KernelError. */
  readonly rules: () => Promise<readonly FirewallRule[]>
}

/**
 * The priority at which the kernel runs all chains of type nat of a hook, regardless of their own priorities: NF_IP_PRI_NAT_SRC at input,
 * else NF_IP_PRI_NAT_DST (nf_nat_ipv4_ops in net/netfilter/nf_nat_proto.c).
 */
export function natPriority(hook: FirewallHook): number {
  return hook === 'input' ? 100 : -100
}

export const firewallHooks: readonly FirewallHook[] = ['prerouting', 'input', 'forward', 'output']

/** Targets of x_tables after which the next rule follows. */
const continuing: ReadonlySet<string> = new Set([
  'AUDIT',
  'CHECKSUM',
  'CLASSIFY',
  'CONNMARK',
  'CONNSECMARK',
  'CT',
  'DSCP',
  'ECN',
  'HL',
  'HMARK',
  'IDLETIMER',
  'LED',
  'LOG',
  'MARK',
  'NFLOG',
  'NOTRACK',
  'RATEEST',
  'SECMARK',
  'SET',
  'TCPMSS',
  'TEE',
  'TOS',
  'TRACE',
  'TTL',
  'ULOG',
])

/** Targets of x_tables after which a chain of type nat ends. */
const translating: ReadonlySet<string> = new Set(['DNAT', 'MASQUERADE', 'NETMAP', 'REDIRECT', 'SNAT'])

/** The verdict of a target of x_tables that has a name. */
export function verdictOfTarget(name: string): FirewallVerdict {
  if (name === 'REJECT') return 'reject'
  if (translating.has(name)) return 'accept'
  return continuing.has(name) ? 'continue' : 'unknown'
}
