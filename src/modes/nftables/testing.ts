// The inside of this room, for tests and benchmarks. No file of src imports it.
export { nftablesMode } from './mode.js'
export { type NftConfig, nftSettings } from './node-settings.js'
