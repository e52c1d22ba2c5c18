// Routes, addresses, network interfaces and policy routing rules.
import { familyOf, type IpAddress, type IpFamily } from '../../address.js'
import type { ErrnoName } from '../../errors.js'
import type { BatchOutcome } from '../batch.js'

/**
 * The route protocol (rtm_protocol) of Viaduct's routes. linux/rtnetlink.h, iproute2's rt_protos and FRR do not use this number
 * (docs/adr/0004).
 */
export const viaductRouteProtocol = 173

/** The route protocol of earlier builds of Viaduct. The guest agent of Google Cloud uses it too. */
export const formerRouteProtocol = 66

/**
 * A host route of type local in table local, with scope host and no TOS. It makes `address` local to this node
 * without an interface address.
 */
export interface LocalRoute {
  readonly address: IpAddress
  readonly interfaceIndex: number
  /** Source address of the node's own connections to the address (RTA_PREFSRC). Must be an address of the node. */
  readonly preferredSource?: IpAddress
  /** Creator of the route: viaductRouteProtocol, or 2 for the kernel. */
  readonly protocol: number
  /** Routes of one address with different metrics stand side by side; the least one is used. Absent: the kernel's default. */
  readonly metric?: number
}

export interface InterfaceAddress {
  readonly address: IpAddress
  readonly prefixLength: number
  readonly interfaceIndex: number
}

interface RouteOps {
  /** EEXIST when the address has a route of the same metric. */
  'add-route': { readonly route: LocalRoute }
  /** Adds the route or replaces one with the same address and metric. */
  'replace-route': { readonly route: LocalRoute }
  /** Removes only a route with the same protocol and, if the operation names one, the same metric; ESRCH when absent. */
  'remove-route': { readonly route: LocalRoute }
  /** EEXIST when present. */
  'add-address': { readonly address: InterfaceAddress }
  /** EADDRNOTAVAIL when absent. */
  'remove-address': { readonly address: InterfaceAddress }
}
export type RouteOp = { readonly [K in keyof RouteOps]: { readonly op: K } & RouteOps[K] }[keyof RouteOps]

/** The first packet of a connection, for which the kernel is asked for a route. */
export interface RouteQuestion {
  readonly destination: IpAddress
  /** Absent: the kernel chooses one. */
  readonly source?: IpAddress | undefined
  /** Index of the interface by which it comes in: the kernel checks the source too. Absent: the node sends it. */
  readonly inInterface?: number | undefined
  /** The packet mark. Absent: 0. */
  readonly mark?: number
  /** The kernel takes only these protocols. Absent: policy routing rules for protocols and ports do not count. */
  readonly transport?: { readonly protocol: 'tcp' | 'udp'; readonly port: number } | undefined
}

/** The kernel's answer. An errno: it does not route the packet. */
export type RouteChoice =
  | { readonly isRouted: false; readonly errno: ErrnoName }
  | {
      readonly isRouted: true
      /** The destination is an address of the node. */
      readonly isLocal: boolean
      /** The interface by which the packet leaves; lo for a local address. */
      readonly interfaceIndex: number
      /** The source of a packet that has none yet (RTA_PREFSRC). Absent: it has one, or there is none. */
      readonly preferredSource?: IpAddress
    }

/** Host routes of the local table and interface addresses: the two ways to make a VIP local. */
export interface Routes {
  apply(ops: readonly RouteOp[]): Promise<BatchOutcome>
  /**
   * The kernel's choice for each packet, in order (RTM_GETROUTE): ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL or EXDEV are answers. Throws
   * KernelError, ENODEV if the interface does not exist. A dry run asks the running kernel: its own transactions do not count.
   */
  lookUp(questions: readonly RouteQuestion[]): Promise<readonly RouteChoice[]>
  /** Packed RouteRecords: host routes (/32, /128) of type local in table local, of any creator. */
  dumpLocalRoutes(family: IpFamily): Promise<Uint8Array>
  /**
   * Packed AddressRecords of the addresses that routes of type unicast lead to by name, in all tables, each once: next hops, and
   * destinations of host routes without a next hop, such as those of pods.
   */
  dumpNextHops(family: IpFamily): Promise<Uint8Array>
  /** Packed AddressRecords of one interface or of all. */
  dumpAddresses(family: IpFamily, interfaceIndex?: number): Promise<Uint8Array>
  /** Waits for the batch in flight; idempotent. */
  close(): Promise<void>
}

export interface Link {
  readonly name: string
  readonly index: number
  /** rtnetlink kind ("dummy", "veth"); empty for hardware and loopback. */
  readonly kind: string
  readonly isUp: boolean
}

export type LinkEvent =
  | {
      readonly kind: 'link'
      readonly change: 'add' | 'remove'
      readonly name: string
      readonly index: number
    }
  | {
      readonly kind: 'address'
      readonly change: 'add' | 'remove'
      readonly index: number
      readonly family: IpFamily
      readonly address: IpAddress
    }
  /** Events were lost: dump again. */
  | { readonly kind: 'overrun' }

/** Network interfaces of this namespace. */
export interface Links {
  list(): Promise<readonly Link[]>
  /** undefined: no such interface. */
  find(name: string): Promise<Link | undefined>
  /** Creates a dummy device, down. EEXIST when the name is taken, EOPNOTSUPP on a kernel without the dummy module. */
  addDummy(name: string): Promise<Link>
  setUp(index: number): Promise<void>
  /** ENODEV when absent. */
  remove(index: number): Promise<void>
  /** Link and address changes, in batches. Throws EBADF after `close()`. */
  watch(): LinkWatch
  close(): Promise<void>
}

export interface LinkWatch {
  /** Resolves with the next events; with undefined after close(). */
  next(): Promise<readonly LinkEvent[] | undefined>
  close(): Promise<void>
}

/** The actions of policy routing rules. `table`: look into a routing table. */
export const ruleActions = ['table', 'goto', 'nop', 'blackhole', 'unreachable', 'prohibit'] as const

/** A policy routing rule of any program, as far as it concerns the packet mark. Its other conditions are left out. */
export interface PolicyRule {
  readonly family: IpFamily
  readonly priority: number
  readonly mark: number
  /** The bits of the mark that the rule compares; 0: it does not look at the mark. */
  readonly markMask: number
  /** True: the rule takes the packets that do not meet its conditions. */
  readonly isInverted: boolean
  readonly action: (typeof ruleActions)[number] | 'other'
  /** The routing table of the action `table`. */
  readonly table: number
}

/** The routing tables that have a name on every node (linux/rtnetlink.h). */
const tableNames: ReadonlyMap<number, string> = new Map([
  [253, 'default'],
  [254, 'main'],
  [255, 'local'],
])
const everyBit = 0xffffffff

/** The rule in the syntax of `ip rule`, without its other conditions: `100: fwmark 0x4000/0x4000 lookup 100`. */
export function describePolicyRule(rule: PolicyRule): string {
  const { priority, mark, markMask, isInverted, action, table } = rule
  const mask = markMask === everyBit ? '' : `/0x${markMask.toString(16)}`
  const target = action === 'table' ? `lookup ${tableNames.get(table) ?? table}` : action
  return `${priority}: ${isInverted ? 'not ' : ''}fwmark 0x${mark.toString(16)}${mask} ${target}`
}

/** `10.96.0.10 on interface 1`. */
export function describeRouteOp(op: RouteOp): string {
  if ('route' in op) return `${op.route.address} on interface ${op.route.interfaceIndex}`
  const { address, prefixLength, interfaceIndex } = op.address
  return `${address}/${prefixLength} on interface ${interfaceIndex}`
}

export function familyOfRouteOp(op: RouteOp): IpFamily {
  return familyOf('route' in op ? op.route.address : op.address.address)
}
