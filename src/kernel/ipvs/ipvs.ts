import type { IpAddress, IpFamily } from '../../address.js'
import type { IpvsBatch } from './batch.js'
import type { BatchOutcome } from '../outcome.js'

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

/**
 * One family's whole table as packed records (records.ts). The real servers of one virtual server are consecutive from `first_real`,
 * sorted by address bytes, then port. Read it with the cursors of cursors.ts, without an object per record.
 */
export interface IpvsDump {
  readonly virtualServers: Uint8Array
  readonly realServers: Uint8Array
  /** Parallel to the two tables; only if requested. */
  readonly virtualServerCounters?: Uint8Array
  readonly realServerCounters?: Uint8Array
}

export interface IpvsInfo {
  /** 1.2.1 is 0x010201. */
  readonly version: number
  readonly connectionTableSize: number
  /** Virtual servers of IPv4 in this network namespace: the cheapest drift check. */
  readonly ipv4VirtualServers: number
}

/** Seconds; 0 in a set keeps the kernel's value (ip_vs_set_timeout). */
export interface IpvsTimeouts {
  readonly tcpSeconds: number
  readonly tcpFinSeconds: number
  readonly udpSeconds: number
}

/** A connection that IPVS schedules. */
export interface IpvsConnection {
  readonly protocol: Protocol
  readonly client: RealServerKey
  /** The destination that the client chose. */
  readonly virtual: RealServerKey
  readonly real: RealServerKey
  /** In the spelling of ipvsadm(8). */
  readonly state: string
  /** The connection ends after so many seconds without a packet. */
  readonly expiresSeconds: number
}

/** The kernel's IPVS table. Operations of one batch are applied in order, without rollback. */
export interface Ipvs {
  /**
   * Makes the kernel load IP_VS if it is not loaded. Viaduct does not run modprobe. NB: before Linux 5.16 no other call does. Throws
   * KernelError ENOENT if the kernel has not loaded it.
   */
  load(): Promise<void>
  /** Applies all operations; throws KernelError only if the whole batch could not be sent or accounted for. */
  apply(ops: readonly IpvsOp[] | IpvsBatch): Promise<BatchOutcome>
  /**
   * Empty tables if there are no virtual servers. A dump with counters delays no other call, and may show the state before or after a
   * batch that was requested earlier. Throws KernelError if the dump fails.
   */
  dump(family: IpFamily, options?: { readonly counters?: boolean }): Promise<IpvsDump>
  /**
   * The current state of these virtual servers, in their order, without absent ones. The work grows with the number of keys, not with
   * the table. Throws KernelError if a read fails.
   */
  read(keys: readonly VirtualServerKey[], options?: { readonly counters?: boolean }): Promise<IpvsDump>
  info(): Promise<IpvsInfo>
  /** The present connections, read in parts while the reader takes them; no records of persistence. Throws KernelError meanwhile. */
  connections(family: IpFamily): AsyncIterable<IpvsConnection>
  timeouts(): Promise<IpvsTimeouts>
  setTimeouts(timeouts: IpvsTimeouts): Promise<void>
  /** Waits for the batch in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
