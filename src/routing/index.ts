// In: one service port, its endpoints, this node. Out: its Route; the owner of each frontend that service ports claim.
// Never: proxy modes, kernel types, I/O.
// Owner of: the claims on frontends, in a FrontendOwners or FrontendClaims that its user holds; all else are functions of their arguments.
// Read next: route.ts, frontend-owners.ts, then modes/ipvs/compile.ts.
export type { NodeView } from './endpoints.js'
export { type ClaimConflict, FrontendClaims } from './frontend-claims.js'
export { type FrontendChange, type FrontendConflict, FrontendOwners } from './frontend-owners.js'
export { addressOf, describeFrontend, type Frontend, frontendProtocols, frontendsOf } from './frontend.js'
export { route, type Backend, type Route } from './route.js'
