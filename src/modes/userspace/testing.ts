// The inside of this room, for tests and benchmarks. No file of src imports it.
export { describeDesired } from './view.js'
export { userspaceMode } from './mode.js'
