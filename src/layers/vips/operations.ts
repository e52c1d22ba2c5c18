import type { OperationKind } from '../../engine/index.js'
import { describeRouteOp, type RouteOp } from '../../kernel/index.js'

/** Operations on bindings of VIPs, as a pass counts and prints them. */
export const bindingOperations: OperationKind<RouteOp> = {
  name: 'routes',
  describe: describeRouteOp,
  isMetered: true,
}
