// The desired objects of one route, in the terms of the mode's sets and maps (schema.ts).
import type { Cidr, IpAddress } from '../../../address.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { Backend, Frontend, FrontendProtocol } from '../../../routing/index.js'

/** A frontend whose packets go to endpoints. */
export type NftFrontend = Exclude<Frontend, { readonly kind: 'health-check' }>

/** The treatment of new connections to one frontend. */
export interface DesiredFrontend {
  readonly frontend: NftFrontend
  /** The address is a cluster IP, whose other ports are refused too (F-055). */
  readonly isClusterIP: boolean
  /** The verdict where `backends` is empty; undefined: connections are served. */
  readonly refusal: 'reject' | 'drop' | undefined
  /** Endpoints of connections that no short circuit takes. */
  readonly backends: readonly Backend[]
  /** External policy Local: the endpoints for pods and for the node itself (F-051). Empty: no short circuit. */
  readonly shortCircuit: readonly Backend[]
  /** Connections leave with this node's address (F-049). */
  readonly isMasqueraded: boolean
  /** The chain of the service port that chooses among `backends`. Empty: sets of all frontends lead to them. */
  readonly chain: string
  /** The same for `shortCircuit`. */
  readonly shortCircuitChain: string
  /** Sources that may connect (F-056); undefined: all. */
  readonly allowedSources: readonly Cidr[] | undefined
}

/** An endpoint on this node, which is masqueraded when it reaches itself through a Service (F-050). */
export interface Hairpin {
  readonly address: IpAddress
  readonly protocol: FrontendProtocol
  readonly port: number
}

/** The chains of one service port, which its frontends share: a chain per list of endpoints (own-chains.ts). */
export interface DesiredOwnChains {
  /** Part of the names of the chains and of the set of clients. */
  readonly id: string
  readonly name: ServicePortKey
  readonly protocol: FrontendProtocol
  readonly affinitySeconds: number
  /** Empty: no frontend leads to the chain of these endpoints. */
  readonly cluster: readonly Backend[]
  readonly local: readonly Backend[]
}

export interface DesiredRoute {
  readonly frontends: readonly DesiredFrontend[]
  /** undefined: no frontend leads to an own chain. */
  readonly own: DesiredOwnChains | undefined
  readonly hairpins: readonly Hairpin[]
}
