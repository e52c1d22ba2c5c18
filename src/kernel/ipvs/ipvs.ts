// The kernel's IPVS table: operations on virtual servers and real servers, and reads. ipvsadm(8) describes the objects.
import type { IpFamily } from '../../address.js'
import type { IpvsBatch } from './batch.js'
import type { BatchOutcome } from '../batch.js'
import type { IpvsOp, Protocol, RealServerKey, VirtualServerKey } from './servers.js'

export * from './servers.js'

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
