// In: ObjectEvents, Config, the host name. Out: NodeFacts (name, zone, addresses) and whether they changed.
// Never: ask the kernel or the network; decide what follows from a change.
// Owner of: the last known facts of our own Node.
// Read next: node-tracker.ts; routing/ (zone and name), sync/ (addresses).
export { nodeName } from './node-name.js'
export { NodeTracker, nodeAddresses, type NodeChange, type NodeFacts } from './node-tracker.js'
