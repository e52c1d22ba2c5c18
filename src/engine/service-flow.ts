import type { IpAddress } from '../address.js'
import type { Protocol } from '../kernel/index.js'

/** A connection of a client to a frontend, as the mode knows it. */
export interface ServiceFlow {
  readonly protocol: Protocol
  readonly source: IpAddress
  readonly sourcePort: number
  readonly destination: IpAddress
  readonly destinationPort: number
  readonly endpoint: { readonly address: IpAddress; readonly port: number }
  /** As the kernel's tools spell it. undefined: the protocol is not TCP. */
  readonly state: string | undefined
  /** It ends after so many seconds without a packet. undefined: after no time. */
  readonly timeoutSeconds: number | undefined
}

/** Connections that are made while the reader takes them. */
export type FlowSource = Iterable<ServiceFlow> | AsyncIterable<ServiceFlow>
