// Sizes of table entries in the kernel, in bytes: linux/netfilter_ipv4/ip_tables.h, xt_*.h, 64 bit.
import type { IpFamily } from '../../src/address.js'
import type { XtRule, XtTarget } from '../../src/kernel/xtables/xtables.js'

const header = { ipv4: 112, ipv6: 168 } as const
const standardTarget = 40
const errorTarget = 64

const targetBytes: Readonly<Record<XtTarget['kind'], Readonly<Record<IpFamily, number>>>> = {
  jump: { ipv4: standardTarget, ipv6: standardTarget },
  goto: { ipv4: standardTarget, ipv6: standardTarget },
  accept: { ipv4: standardTarget, ipv6: standardTarget },
  drop: { ipv4: standardTarget, ipv6: standardTarget },
  return: { ipv4: standardTarget, ipv6: standardTarget },
  mark: { ipv4: 40, ipv6: 40 },
  dnat: { ipv4: 80, ipv6: 80 },
  masquerade: { ipv4: 56, ipv6: 72 },
  reject: { ipv4: 40, ipv6: 40 },
  'map-mark': { ipv4: 56, ipv6: 56 },
}

const portsBytes = { tcp: 48, udp: 48, sctp: 328 } as const

/** Sizes of the other matches, by the field of the rule. */
const matchBytes = {
  mark: 48,
  state: 200,
  isUnconfirmed: 200,
  addressType: 40,
  set: 80,
  isSourceDestination: 560,
  recent: 264,
  probability: 56,
  comment: 288,
} as const satisfies { readonly [K in keyof XtRule]?: number }

/** The header of every entry. */
export function entryBytes(family: IpFamily): number {
  return header[family]
}

/** The ERROR entry at the start of a chain and at the end of the table. */
export function headBytes(family: IpFamily): number {
  return header[family] + errorTarget
}

/** The last entry of a chain: its policy, or RETURN. */
export function closingBytes(family: IpFamily): number {
  return header[family] + standardTarget
}

/** Size of a rule's matches and target. */
export function ruleBytes(rule: XtRule, family: IpFamily): number {
  let bytes = targetBytes[rule.target.kind][family]
  const { protocol, sourcePorts, destinationPorts } = rule
  if (protocol !== undefined && (sourcePorts !== undefined || destinationPorts !== undefined))
    bytes += portsBytes[protocol]
  if (rule.mark !== undefined) bytes += matchBytes.mark
  if (rule.state !== undefined) bytes += matchBytes.state
  if (rule.isUnconfirmed === true) bytes += matchBytes.isUnconfirmed
  if (rule.addressType !== undefined) bytes += matchBytes.addressType
  if (rule.set !== undefined) bytes += matchBytes.set
  if (rule.isSourceDestination === true) bytes += matchBytes.isSourceDestination
  if (rule.recent !== undefined) bytes += matchBytes.recent
  if (rule.probability !== undefined) bytes += matchBytes.probability
  if (rule.comment !== undefined) bytes += matchBytes.comment
  return bytes
}
