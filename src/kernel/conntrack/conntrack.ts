// The kernel's connection table. Viaduct removes stale flows of connectionless protocols.
import type { IpAddress, IpFamily } from '../../address.js'
import type { Protocol } from '../ipvs/ipvs.js'

/** A frontend. Flows that do not lead to one of its backends are stale. */
export interface ConntrackFrontend {
  readonly protocol: Protocol
  /** undefined: a node port on the addresses that `deleteStale` gets. */
  readonly address: IpAddress | undefined
  readonly port: number
  /** Valid backends. Empty: every flow of the frontend is stale. */
  readonly backends: readonly { readonly address: IpAddress; readonly port: number }[]
}

export interface ConntrackOutcome {
  /** Number of flows read; undefined: the kernel filtered them. */
  readonly seen: number | undefined
  readonly deleted: number
}

/** The connection table. NB: it has no operation that flushes the whole table. */
export interface Conntrack {
  /**
   * Deletes every flow whose original destination is one of the frontends and that is not translated to one of its backends. A flow
   * without translation, answered from the frontend's address, is deleted too. Flows of other protocols than the frontends' stay.
   * `nodePortAddresses`: the addresses that serve node ports; flows to other addresses do not belong to node ports. Throws KernelError.
   */
  deleteStale(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<ConntrackOutcome>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}
