// In: ObjectEvents, Config, the host name, the machine's addresses. Out: NodeFacts (name, zone, addresses, pods' networks) and
// whether they changed; what the modes' settings follow from them.
// Never: ask the kernel or the network; decide what follows from a change, but for the start and the end of the agent.
// Owner of: the last known facts of our own Node.
// Read next: node-tracker.ts; node-watch.ts; local-detector.ts and node-port-addresses.ts; routing/ (zone and name), sync/ (the rest).
export { configWarnings } from './config-warnings.js'
export { localDetectorOf, type LocalDetector } from './local-detector.js'
export { familyProblem, type FamilyFacts } from './family-problem.js'
export { nodeName } from './node-name.js'
export {
  healthCheckAddressesOf,
  nodePortAddressesOf,
  nodePortDestinations,
  servesLocalhostNodePorts,
  type LocalAddresses,
  type NodePortFacts,
} from './node-port-addresses.js'
export { NodeWatch } from './node-watch.js'
export {
  mergeNodeChanges,
  nodeAddresses,
  NodeTracker,
  noNodeChange,
  type NodeChange,
  type NodeFacts,
} from './node-tracker.js'
