// The inside of this room, for tests and benchmarks. No file of src imports it.
export { cleanUp, describeCleanUp } from './clean-up.js'
export { type IpvsModeSettings, compileRoute } from './compile/compile.js'
export { type SchedulingSettings, unmetRequests } from './compile/scheduling.js'
export { describeServers } from './describe.js'
export { ipvsMode } from './mode.js'
export { packetRules } from './view.js'
export { prepareKernel } from './prepare-kernel.js'
export { IpvsSettings } from './settings.js'
