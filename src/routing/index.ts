// In: one service port, its endpoints, this node. Out: its Route, on request with reasons; the owner of each frontend.
// Never: proxy modes, kernel types, I/O.
// Owner of: the claims on frontends, in a FrontendOwners that the engine holds for each family. The rest are pure functions.
// Read next: route.ts, frontend-owners.ts, left-out-frontends.ts, then modes/ipvs/compile/compile.ts.
export type { Reason, RuleNumber } from './endpoints.js'
export { type FrontendConflict, FrontendOwners, type LostFrontend } from './frontend-owners.js'
export {
  addressesOf,
  addressOf,
  describeFrontend,
  type Frontend,
  type FrontendProtocol,
  frontendProtocols,
  frontendsOf,
} from './frontend.js'
export {
  type EndpointChoice,
  type ExplainedRoute,
  explainFrontends,
  explainRoute,
  type FrontendReasons,
} from './explain-route.js'
export {
  type Decision,
  decide,
  dependsOnMachine,
  holderOf,
  holderReasons,
  leftOutFrontends,
  type LeftOutFrontend,
  routeWithout,
  type Taken,
} from './left-out-frontends.js'
export { route, type Backend, type Route, type Verdict, verdictOf } from './route.js'
