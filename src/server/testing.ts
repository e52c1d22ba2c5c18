// The inside of this room, for tests and benchmarks. No file of src imports it.
export type { AgentServersOptions } from './agent-servers.js'
export { BoundServer, type BoundServerOptions, openListenProblems } from './bound-server.js'
export type { HealthCheckOptions } from './health-check-servers.js'
export { httpLimits } from './http-server.js'
export type { TurnsOptions } from './turns.js'
