import type { IpAddress, IpFamily } from '../../address.js'
import type { BatchOutcome } from '../outcome.js'

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

export interface RouteOps {
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

/** Host routes of the local table and interface addresses: the two ways to make a VIP local. */
export interface Routes {
  apply(ops: readonly RouteOp[]): Promise<BatchOutcome>
  /** Packed RouteRecords: host routes (/32, /128) of type local in table local, of any creator. */
  dumpLocalRoutes(family: IpFamily): Promise<Uint8Array>
  /** Packed AddressRecords of one interface or of all. */
  dumpAddresses(family: IpFamily, interfaceIndex?: number): Promise<Uint8Array>
  /** Waits for the batch in flight; idempotent. */
  close(): Promise<void>
}
