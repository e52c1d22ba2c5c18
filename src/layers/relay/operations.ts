import type { OperationKind } from '../../engine/index.js'
import { describeRelayOp, type RelayOp } from '../../kernel/index.js'

/** Operations of the relay, as a pass counts and prints them. */
export const relayOperations: OperationKind<RelayOp> = {
  name: 'relay',
  describe: describeRelayOp,
  isMetered: true,
}
