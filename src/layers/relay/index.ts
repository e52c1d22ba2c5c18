// In: Routes, this node. Out: services and listeners of the relay.
// Never: a mode; Kubernetes objects; the bytes that the relay copies.
// Owner of: the table of acknowledged services and listeners.
// Read next: compile/compile.ts (a route), relay-table.ts, shared-relay.ts, docs/userspace.md.
export {
  compileRoute,
  hostCidr,
  type DesiredRoute,
  relayProtocolOf,
  type RelayRouteSettings,
  takesNewClients,
} from './compile/compile.js'
export {
  type LocalhostNodePorts,
  openLocalhostNodePorts,
  withConditionWatch,
} from './localhost-node-ports.js'
export { RelayTable } from './relay-table.js'
export { RelayConditionWatch } from './condition-watch.js'
export { type NearClients, nearClients, SharedRelay } from './shared-relay.js'
