// A rule of every kind, and its line in iptables-save.
import type { IpFamily } from '../../src/address.js'
import { XtState, type XtRule, type XtTableName } from '../../src/kernel/index.js'
import { ip } from './law.js'

export interface RuleKind {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly rule: XtRule
  /** The text of iptables-save after the chain's name. */
  readonly text: string
}

/** A set of type hash:ip,port that must exist. */
export const setName: Readonly<Record<IpFamily, string>> = { ipv4: 'viaduct-4', ipv6: 'viaduct-6' }

const accept = { kind: 'accept' } as const

/** Matches that do not depend on the family; target ACCEPT. */
const matches: readonly (readonly [text: string, rule: Omit<XtRule, 'target'>])[] = [
  ['', {}],
  ['-i eth0', { inInterface: { name: 'eth0' } }],
  ['! -i cni+', { inInterface: { name: 'cni+', isInverted: true } }],
  ['-o fifteen-letters', { outInterface: { name: 'fifteen-letters' } }],
  ['! -o veth+', { outInterface: { name: 'veth+', isInverted: true } }],
  ['-p tcp', { protocol: 'tcp' }],
  ['-p sctp', { protocol: 'sctp' }],
  ['-p tcp -m tcp --dport 80', { protocol: 'tcp', destinationPorts: [80, 80] }],
  ['-p tcp -m tcp --sport 1:1023', { protocol: 'tcp', sourcePorts: [1, 1023] }],
  [
    '-p udp -m udp --sport 53 --dport 30000:32767',
    { protocol: 'udp', sourcePorts: [53, 53], destinationPorts: [30_000, 32_767] },
  ],
  ['-p sctp -m sctp --dport 36412', { protocol: 'sctp', destinationPorts: [36_412, 36_412] }],
  ['-m mark --mark 0x4000/0x4000', { mark: { value: 0x4000, mask: 0x4000 } }],
  ['-m mark ! --mark 0x1', { mark: { value: 1, mask: 0xffffffff, isInverted: true } }],
  ['-m mark --mark 0x80000000/0x80000000', { mark: { value: 0x80000000, mask: 0x80000000 } }],
  ['-m conntrack --ctstate RELATED,ESTABLISHED', { state: { bits: XtState.related | XtState.established } }],
  ['-m conntrack --ctstate INVALID', { state: { bits: XtState.invalid } }],
  ['-m conntrack ! --ctstate NEW,DNAT', { state: { bits: XtState.new | XtState.dnat, isInverted: true } }],
  ['-m conntrack ! --ctstatus CONFIRMED', { isUnconfirmed: true }],
  ['-m addrtype --dst-type LOCAL', { addressType: { of: 'destination' } }],
  ['-m addrtype ! --src-type LOCAL', { addressType: { of: 'source', isInverted: true } }],
  ['-m statistic --mode random --probability 0.50000000000', { probability: 1 / 2 }],
  ['-m statistic --mode random --probability 0.33333333349', { probability: 1 / 3 }],
  ['-m comment --comment cluster-ip', { comment: 'cluster-ip' }],
  [
    String.raw`-m comment --comment "shop/web:http said \"ünder\\way\""`,
    { comment: String.raw`shop/web:http said "ünder\way"` },
  ],
  [
    '-p tcp -m comment --comment all -m tcp --dport 80 -m mark --mark 0x1/0x1 -m addrtype --dst-type LOCAL' +
      ' -m conntrack --ctstate NEW -m statistic --mode random --probability 0.25000000000',
    {
      protocol: 'tcp',
      destinationPorts: [80, 80],
      mark: { value: 1, mask: 1 },
      addressType: { of: 'destination' },
      state: { bits: XtState.new },
      probability: 1 / 4,
      comment: 'all',
    },
  ],
]

const matchesOf: Readonly<Record<IpFamily, typeof matches>> = {
  ipv4: [
    ['-s 10.0.0.0/8', { source: { address: ip('10.0.0.0'), prefixLength: 8 } }],
    ['! -s 10.244.1.5/32', { source: { address: ip('10.244.1.5'), prefixLength: 32, isInverted: true } }],
    ['-d 10.96.0.10/32', { destination: { address: ip('10.96.0.10'), prefixLength: 32 } }],
    ['! -d 10.96.0.0/12', { destination: { address: ip('10.96.0.0'), prefixLength: 12, isInverted: true } }],
    [
      '-m bpf --bytecode "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 4294967295,6 0 0 0"',
      { isSourceDestination: true },
    ],
    [
      '-m recent --set --name KUBE-SEP-A --mask 255.255.255.255 --rsource',
      { recent: { list: 'KUBE-SEP-A', action: 'set' } },
    ],
    [
      '-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource',
      { recent: { list: 'KUBE-SEP-A', action: 'check', seconds: 10_800 } },
    ],
    ['-m set --match-set viaduct-4 dst,dst', { set: { name: 'viaduct-4', directions: ['dst', 'dst'] } }],
    [
      '-m set ! --match-set viaduct-4 src,dst',
      { set: { name: 'viaduct-4', directions: ['src', 'dst'], isInverted: true } },
    ],
  ],
  ipv6: [
    ['-s fd00::/8', { source: { address: ip('fd00::'), prefixLength: 8 } }],
    ['! -s fd00:244::5/128', { source: { address: ip('fd00:244::5'), prefixLength: 128, isInverted: true } }],
    ['-d fd00:96::a/128', { destination: { address: ip('fd00:96::a'), prefixLength: 128 } }],
    [
      '! -d fd00:96::/108',
      { destination: { address: ip('fd00:96::'), prefixLength: 108, isInverted: true } },
    ],
    [
      '-m bpf --bytecode "18,32 0 0 8,7 0 0 0,32 0 0 24,29 0 13 0,32 0 0 12,7 0 0 0,32 0 0 28,29 0 9 0' +
        ',32 0 0 16,7 0 0 0,32 0 0 32,29 0 5 0,32 0 0 20,7 0 0 0,32 0 0 36,29 0 1 0,6 0 0 4294967295,6 0 0 0"',
      { isSourceDestination: true },
    ],
    [
      '-m recent --rcheck --name A --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource',
      { recent: { list: 'A', action: 'check' } },
    ],
    ['-m set --match-set viaduct-6 src,src', { set: { name: 'viaduct-6', directions: ['src', 'src'] } }],
  ],
}

const targets: readonly (readonly [text: string, table: XtTableName, rule: XtRule])[] = [
  ['-j DROP', 'filter', { target: { kind: 'drop' } }],
  ['-j RETURN', 'raw', { target: { kind: 'return' } }],
  ['-j VIADUCT-TARGET', 'nat', { target: { kind: 'jump', chain: 'VIADUCT-TARGET' } }],
  [
    '-m conntrack --ctstate NEW -m comment --comment portals -j VIADUCT-TARGET',
    'nat',
    { state: { bits: XtState.new }, comment: 'portals', target: { kind: 'jump', chain: 'VIADUCT-TARGET' } },
  ],
  ['-g VIADUCT-TARGET', 'nat', { target: { kind: 'goto', chain: 'VIADUCT-TARGET' } }],
  ['-j MARK --set-xmark 0x4000/0x4000', 'nat', { target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }],
  ['-j MARK --set-xmark 0x4000/0x0', 'mangle', { target: { kind: 'mark', value: 0x4000, mask: 0 } }],
  ['-j MARK --set-xmark 0x1/0xffffffff', 'mangle', { target: { kind: 'mark', value: 1, mask: 0xffffffff } }],
  ['-j MASQUERADE', 'nat', { target: { kind: 'masquerade', isRandomFully: false } }],
  ['-j MASQUERADE --random-fully', 'nat', { target: { kind: 'masquerade', isRandomFully: true } }],
]

const targetsOf: Readonly<Record<IpFamily, typeof targets>> = {
  ipv4: [
    ['-j REJECT --reject-with icmp-port-unreachable', 'filter', { target: { kind: 'reject' } }],
    [
      '-j SET --map-set viaduct-4 dst,dst --map-mark',
      'mangle',
      { target: { kind: 'map-mark', set: { name: 'viaduct-4', directions: ['dst', 'dst'] } } },
    ],
    [
      '-p tcp -j DNAT --to-destination 10.244.1.5:8080',
      'nat',
      { protocol: 'tcp', target: { kind: 'dnat', address: ip('10.244.1.5'), port: 8080 } },
    ],
  ],
  ipv6: [
    ['-j REJECT --reject-with icmp6-port-unreachable', 'filter', { target: { kind: 'reject' } }],
    [
      '-p udp -j SET --map-set viaduct-6 src,dst --map-mark',
      'mangle',
      {
        protocol: 'udp',
        target: { kind: 'map-mark', set: { name: 'viaduct-6', directions: ['src', 'dst'] } },
      },
    ],
    [
      '-p udp -j DNAT --to-destination [fd00:244::5]:53',
      'nat',
      { protocol: 'udp', target: { kind: 'dnat', address: ip('fd00:244::5'), port: 53 } },
    ],
  ],
}

/** A rule of every kind for one table and family. Jumps lead to VIADUCT-TARGET. */
export function ruleKinds(family: IpFamily, table: XtTableName): readonly RuleKind[] {
  const accepted = table === 'filter' ? [...matches, ...matchesOf[family]] : []
  const targeted = [...targets, ...targetsOf[family]].filter(([, only]) => only === table)
  return [
    ...accepted.map(([words, rule]) => ({
      family,
      table,
      rule: { ...rule, target: accept },
      text: `${words} -j ACCEPT`.trim(),
    })),
    ...targeted.map(([text, , rule]) => ({ family, table, rule, text })),
  ]
}
