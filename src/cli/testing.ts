// The inside of this room, for tests and benchmarks. No file of src imports it.
export { flags } from './parse-arguments.js'
