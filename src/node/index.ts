// In: ObjectEvents, Config, the host name, the machine's addresses. Out: NodeFacts (name, zone, addresses, pods' networks, the places
// that no Service takes) and their changes; the settings of the modes that follow from them.
// Never: asks the kernel or the network; decides the effect of a change, except the start and the end of the agent.
// Owner of: the last known facts of this node's Node, and the places of the API server.
// Read next: node-tracker.ts; node-watch.ts; mode-settings.ts; routing/ (zone and name), modes/ (the rest).
export { configWarnings } from './config-warnings.js'
export {
  localDetectorOf,
  type LocalDetector,
  healthCheckAddressesOf,
  healthCheckSockets,
  isLoopback,
  loopbackNetworks,
  nodePortAddressesOf,
  nodePortDestinations,
  areNodePortsEverywhere,
  nodePortSockets,
  relayedLoopback,
  type LocalhostFacts,
  servesLocalhostByConfig,
  servesLocalhostNodePorts,
  type LocalAddresses,
} from './mode-settings.js'
export {
  mergeNodeChanges,
  nodeName,
  NodeTracker,
  noNodeChange,
  type NodeChange,
  type NodeFacts,
} from './node-tracker.js'
export { apiServerService, type ProtectedPlaces, servedPlaces, type ServedPlace } from './protected-places.js'
export { NodeWatch } from './node-watch.js'
