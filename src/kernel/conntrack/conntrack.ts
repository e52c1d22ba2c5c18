// The kernel's table of connections, of which stale flows of connectionless protocols are removed.
import type { IpAddress, IpFamily } from '../../address.js'
import type { Protocol } from '../ipvs/ipvs.js'

/** A frontend whose flows must lead to one of its backends, or go. */
export interface ConntrackFrontend {
  readonly protocol: Protocol
  /** undefined: a node port, at the addresses that `deleteStale` gets. */
  readonly address: IpAddress | undefined
  readonly port: number
  /** Backends that flows may go to; empty: none, every flow of the frontend goes. */
  readonly backends: readonly { readonly address: IpAddress; readonly port: number }[]
}

export interface ConntrackOutcome {
  /** Flows that were looked at; undefined: the kernel filtered. */
  readonly seen: number | undefined
  readonly deleted: number
}

/** A flush of the whole table cannot be expressed. */
export interface Conntrack {
  /**
   * Deletes every flow whose original destination is one of the frontends and that is not translated to one of its
   * backends (a flow that is not translated at all answers from the frontend's own address, and goes too). Only flows of the
   * frontends' protocols are touched. `nodePortAddresses`: the destinations that belong to node ports; a flow to another address
   * is not a node port's, whatever its port. Throws KernelError.
   */
  deleteStale(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<ConntrackOutcome>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
