// The inside of this room, for tests and benchmarks. No file of src imports it.
export { compileRoute } from './compile/compile.js'
export type { IptablesModeSettings } from './compile/settings.js'
export { compileSkeleton, countedRules } from './compile/skeleton.js'
export { describeDesired } from './view.js'
export { iptablesMode, openIptablesMode } from './mode.js'
