// In: facts about the agent, from functions of other rooms. Out: replies to HTTP requests.
// Never: changes, except of the log's verbosity; calls of the API server or the kernel.
// Owner of: listening sockets.
// Read next: agent-servers.ts, health-pages.ts and operator-pages.ts; health-check-servers.ts (Services); http-server.ts and paced-socket.ts (bounds).
export { AgentServers, type AgentServersOptions } from './agent-servers.js'
export { BoundServer, type BoundServerOptions } from './bound-server.js'
export { HealthCheckServers, type HealthCheck, type HealthCheckOptions } from './health-check-servers.js'
export { httpLimits } from './http-server.js'
export { answering, type Page } from './reply.js'
