import type { IpAddress, IpFamily } from '../../address.js'
import type { BatchOutcome } from '../outcome.js'

/**
 * The route protocol (rtm_protocol) of Viaduct's routes. linux/rtnetlink.h, the rt_protos of iproute2 and FRR do not use this number
 * (docs/adr/0004).
 */
export const viaductRouteProtocol = 173

/** The route protocol of earlier builds of Viaduct. The guest agent of Google's machines has it for its own routes. */
export const formerRouteProtocol = 66

/**
 * A host route of type local in table local, with scope host, the default metric and no TOS: it makes `address` an address of
 * this node without an interface address.
 */
export interface LocalRoute {
  readonly address: IpAddress
  readonly interfaceIndex: number
  /** Source that the node itself uses towards the address (RTA_PREFSRC); must be an address of the node. */
  readonly preferredSource?: IpAddress
  /** Who made it: viaductRouteProtocol for ours, 2 for the kernel's own. */
  readonly protocol: number
}

export interface InterfaceAddress {
  readonly address: IpAddress
  readonly prefixLength: number
  readonly interfaceIndex: number
}

export interface RouteOps {
  /** EEXIST when present. */
  'add-route': { readonly route: LocalRoute }
  /** Adds, or replaces one of the same address. */
  'replace-route': { readonly route: LocalRoute }
  /** ESRCH when absent; only removes one with the same protocol. */
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
  /** Packed RouteRecords: host routes (/32, /128) of type local in table local, whoever made them. */
  dumpLocalRoutes(family: IpFamily): Promise<Uint8Array>
  /** Packed AddressRecords of one interface, or of all. */
  dumpAddresses(family: IpFamily, interfaceIndex?: number): Promise<Uint8Array>
  /** Waits for the batch in flight; idempotent. */
  close(): Promise<void>
}
