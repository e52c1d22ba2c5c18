// The inside of this room, for tests and benchmarks. No file of src imports it.
export { servicePortKey } from './service-port.js'
export { DirtyPorts } from './dirty-ports.js'
