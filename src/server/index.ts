// In: the agent's facts, as functions of the rooms that have them. Out: replies to HTTP requests.
// Never: a change of state, except the log verbosity; the API server; the kernel's tables.
// Owner of: listening sockets.
// Read next: agent-servers.ts, health-pages.ts and operator-pages.ts; health-check-servers.ts (Services); http-server.ts and paced-socket.ts (bounds).
export { AgentServers, type PagedServer } from './agent-servers.js'
export { HealthCheckServers } from './health-check-servers.js'
export { Connections, createHttpServer, type HttpLimits, listen } from './http-server.js'
export { Turns } from './turns.js'
export { answering, json, text, type Page, type Pages, type PageRequest, type Reply } from './reply.js'
