// The inside of this room, for tests and benchmarks. No file of src imports it.
export { mergeNodeChanges, nodeAddresses } from './node-tracker.js'
export { OtherNodes } from './other-nodes.js'
