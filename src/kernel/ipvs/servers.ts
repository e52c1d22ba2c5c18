// Virtual servers and their real servers, and the operations on them.
import { formatEndpoint, type IpAddress, type IpFamily } from '../../address.js'

export type Protocol = 'tcp' | 'udp' | 'sctp'

/** IP_VS_SVC_F_* of linux/ip_vs.h; without HASHED (2), which is internal to the kernel. */
export const VirtualServerFlag = {
  persistent: 0x1,
  onePacket: 0x4,
  /** sh-fallback, mh-fallback */
  scheduler1: 0x8,
  /** sh-port, mh-port */
  scheduler2: 0x10,
  scheduler3: 0x20,
} as const

export interface AddressVirtualServerKey {
  readonly family: IpFamily
  readonly protocol: Protocol
  readonly address: IpAddress
  readonly port: number
}

export interface MarkVirtualServerKey {
  readonly family: IpFamily
  /** Firewall mark, not 0. */
  readonly mark: number
}

/** Identity of a virtual server; never holds settings. */
export type VirtualServerKey = AddressVirtualServerKey | MarkVirtualServerKey

/** Settings of a virtual server. */
export interface VirtualServerSettings {
  /** Kernel name, at most 15 characters: rr, wrr, lc, sh, mh, ... */
  readonly scheduler: string
  /** Bits of VirtualServerFlag. */
  readonly flags: number
  /** Persistence time-out; 0 without persistence. */
  readonly timeoutSeconds: number
  /** Persistence granularity: prefix length, 32 or 128 for single clients. */
  readonly netmaskLength: number
}

export interface RealServerKey {
  readonly address: IpAddress
  readonly port: number
}

export type TunnelType = 'ipip' | 'gue' | 'gre'

export interface RealServerSettings {
  readonly weight: number
  readonly forwarding: 'masquerade' | 'local' | 'tunnel' | 'direct'
  /** Above this number of connections the server gets no new ones; 0: no limit. */
  readonly upperThreshold: number
  readonly lowerThreshold: number
  /** Only with forwarding `tunnel`; absent means ipip. */
  readonly tunnel?: { readonly type: TunnelType; readonly port: number; readonly flags: number }
}

export interface VirtualServer {
  readonly key: VirtualServerKey
  readonly settings: VirtualServerSettings
}

export interface RealServer {
  readonly key: RealServerKey
  readonly settings: RealServerSettings
}

/** Operations by name. A new operation fails to compile until diff, encode and model support it. */
export interface IpvsOps {
  /** EEXIST when present. */
  'add-virtual-server': { readonly server: VirtualServer }
  /** ESRCH when absent. Replaces the settings; flags outside `flagsMask` (default: all) are kept. */
  'set-virtual-server': { readonly server: VirtualServer; readonly flagsMask?: number }
  /** ESRCH when absent. Its real servers go with it. */
  'remove-virtual-server': { readonly server: VirtualServerKey }
  /** EEXIST when present, ESRCH without the virtual server. */
  'add-real-server': { readonly server: VirtualServerKey; readonly real: RealServer }
  /** ENOENT when absent, ESRCH without the virtual server. */
  'set-real-server': { readonly server: VirtualServerKey; readonly real: RealServer }
  /** ENOENT when absent, ESRCH without the virtual server. */
  'remove-real-server': { readonly server: VirtualServerKey; readonly real: RealServerKey }
  /** Sets the counters of the server and its real servers to 0. ESRCH when absent. */
  'zero-virtual-server': { readonly server: VirtualServerKey }
}
export type IpvsOp = { readonly [K in keyof IpvsOps]: { readonly op: K } & IpvsOps[K] }[keyof IpvsOps]

/** `tcp 10.96.0.10:53`, `fwmark 7 ipv6`. */
export function describeVirtualServer(key: VirtualServerKey): string {
  return 'mark' in key
    ? `fwmark ${key.mark} ${key.family}`
    : `${key.protocol} ${formatEndpoint(key.address, key.port)}`
}

/** The object of the operation: `tcp 10.96.0.10:53 -> 10.244.1.5:53`. */
export function describeIpvsOp(op: IpvsOp): string {
  switch (op.op) {
    case 'add-virtual-server':
    case 'set-virtual-server':
      return describeVirtualServer(op.server.key)
    case 'remove-virtual-server':
    case 'zero-virtual-server':
      return describeVirtualServer(op.server)
    case 'add-real-server':
    case 'set-real-server':
      return `${describeVirtualServer(op.server)} -> ${formatEndpoint(op.real.key.address, op.real.key.port)}`
    case 'remove-real-server':
      return `${describeVirtualServer(op.server)} -> ${formatEndpoint(op.real.address, op.real.port)}`
  }
}

export function familyOfIpvsOp(op: IpvsOp): IpFamily {
  return 'key' in op.server ? op.server.key.family : op.server.family
}
