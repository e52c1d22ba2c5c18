// In: what the agent knows, handed over by who knows it. Out: replies to HTTP requests.
// Never: a change of anything; the API server, the kernel's tables.
// Owner of: listening sockets.
// Read next: health-check-servers.ts.
export {
  HealthCheckServers,
  type HealthCheck,
  type HealthCheckFailure,
  type HealthCheckOptions,
} from './health-check-servers.js'
