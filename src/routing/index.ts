// In: one service port, its endpoints, this node. Out: its Route.
// Never: proxy modes, kernel types, I/O, state.
// Owner of: nothing; everything here is a function of its arguments.
// Read next: route.ts, then modes/ipvs/compile.ts.
export type { NodeView } from './endpoints.js'
export { route, type Backend, type Route } from './route.js'
