// Rules of any program at the hooks of packets: those that drop, translate, leave untracked, or change the packet mark.
import type { IpFamily } from '../../address.js'
import type { XtFlavour, XtRule } from '../xtables/xtables.js'

export type FirewallHook = 'prerouting' | 'input' | 'forward' | 'output' | 'postrouting'

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
  /**
   * The rule as a tool lists it, made when it is read; of a target that Viaduct does not write only the name. A rule of another form has a
   * description in brackets.
   */
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
  /**
   * `none`: conntrack does not track the packet. `template`: it does, and a later `none` has no effect. Both hold if conntrack has not seen
   * the packet yet. Absent: the rule leaves this open.
   */
  readonly tracking?: 'none' | 'template'
  /** The rule translates the destination of a new connection. */
  readonly isTranslating?: true
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
  /** Whether the legacy table nat counts. It drops no packet, and is large in iptables mode. */
  readonly hasLegacyNat: boolean
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
 * The priority at which the kernel runs all chains of type nat of a hook, regardless of their own priorities: NF_IP_PRI_NAT_SRC at input
 * and postrouting, else NF_IP_PRI_NAT_DST (nf_nat_ipv4_ops in net/netfilter/nf_nat_proto.c).
 */
export function natPriority(hook: FirewallHook): number {
  return hook === 'input' || hook === 'postrouting' ? 100 : -100
}

/** NF_IP_PRI_CONNTRACK: the priority at which conntrack sees a packet at the hooks prerouting and output. */
export const conntrackPriority = -200

export const firewallHooks: readonly FirewallHook[] = [
  'prerouting',
  'input',
  'forward',
  'output',
  'postrouting',
]

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

/** Targets of x_tables that translate destinations: NETMAP at the hooks prerouting and output. */
const translatingDestinations: ReadonlySet<string> = new Set(['DNAT', 'NETMAP', 'REDIRECT'])

/** A target of x_tables. */
interface Target {
  readonly name: string
  readonly info: Uint8Array
}

/** The effect of a target of x_tables on the connection. XT_CT_NOTRACK is bit 0 of `flags` (linux/netfilter/xt_CT.h). */
export function connectionEffect({ name, info }: Target): Pick<FirewallRule, 'tracking' | 'isTranslating'> {
  if (translatingDestinations.has(name)) return { isTranslating: true }
  if (name === 'NOTRACK') return { tracking: 'none' }
  if (name !== 'CT') return {}
  return { tracking: ((info[0] ?? 0) & 1) === 0 ? 'template' : 'none' }
}
