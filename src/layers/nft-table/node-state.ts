import type { IpAddress } from '../../address.js'
import type { NodeFacts } from '../../node/index.js'

/** This node and the machine's own addresses. */
export interface NodeState {
  readonly node: NodeFacts
  readonly machine: readonly IpAddress[]
}
