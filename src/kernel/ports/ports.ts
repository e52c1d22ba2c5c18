// Ports of this machine: those that the agent holds, and the programs that listen on them.
import type { IpAddress, IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { Protocol } from '../ipvs/ipvs.js'
import type { BatchOutcome } from '../batch.js'

/** A port of one address, or of every address of a family. */
export interface PortPlace {
  readonly family: IpFamily
  readonly protocol: Protocol
  /** undefined: every address of the family. */
  readonly address: IpAddress | undefined
  readonly port: number
}

/** Operations by name. */
interface PortOps {
  /**
   * Binds the port, so that no other program gets it; does nothing when it is held. EADDRINUSE: a program has it. EADDRNOTAVAIL: not an
   * address of this machine. EMFILE: the process has no more descriptors for held ports. EPROTONOSUPPORT: the kernel has no SCTP.
   */
  hold: { readonly place: PortPlace }
  /** ENOENT when it is not held. */
  release: { readonly place: PortPlace }
}
export type PortOp = { readonly [K in keyof PortOps]: { readonly op: K } & PortOps[K] }[keyof PortOps]

export interface HoldOutcome extends BatchOutcome {
  /** The service manager did not take the last changes; the next `apply` sends them again. undefined: it has them, or there is none. */
  readonly storeError: KernelError | undefined
}

/** A socket that takes new connections, or datagrams from any sender. */
export interface Listener {
  readonly protocol: Protocol
  /** undefined: every address. */
  readonly address: IpAddress | undefined
  readonly port: number
  /** User of the program. */
  readonly uid: number
  /** undefined: /proc shows no process with this socket. */
  readonly process: { readonly pid: number; readonly name: string } | undefined
  /** An agent holds the port: this one, or another on this machine. */
  readonly isHeld: boolean
  /** A socket of this process. */
  readonly isOwn: boolean
}

/** TCP and UDP; the kernel cannot be asked about SCTP. */
export interface WatchedPort {
  readonly protocol: 'tcp' | 'udp'
  readonly port: number
}

/** Ports of this machine's network namespace. */
export interface Ports {
  /** In order, without rollback. The outcome accounts for every operation. */
  apply(ops: readonly PortOp[]): Promise<HoldOutcome>
  /** The held ports of both families, those that an earlier process stored too. */
  list(): Promise<readonly PortPlace[]>
  /**
   * The sockets that take traffic of this family to one of the ports. Reads /proc only if there is one. Throws KernelError (ENOENT: the
   * kernel has no sock_diag for the protocol).
   */
  find(family: IpFamily, ports: readonly WatchedPort[]): Promise<readonly Listener[]>
  /** Releases all ports. A port that the service manager stores stays bound. Idempotent. */
  close(): Promise<void>
}
