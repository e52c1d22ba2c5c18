// The inside of this room, for tests and benchmarks. No file of src imports it.
export { describeDesired } from './describe.js'
export { userspaceMode } from './mode.js'
