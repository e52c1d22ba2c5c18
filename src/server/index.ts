// In: what the agent knows, handed over by who knows it. Out: replies to HTTP requests.
// Never: a change of anything; the API server, the kernel's tables.
// Owner of: listening sockets.
// Read next: agent-servers.ts, health-pages.ts and operator-pages.ts; health-check-servers.ts (Services); http-server.ts and paced-socket.ts (bounds).
export { AgentServers, type AgentServersOptions } from './agent-servers.js'
export { BoundServer, type BoundServerOptions } from './bound-server.js'
export { HealthCheckServers, type HealthCheck, type HealthCheckOptions } from './health-check-servers.js'
export { httpLimits } from './http-server.js'
export { answering, type Page } from './reply.js'
