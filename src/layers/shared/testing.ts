// The inside of this room, for tests and benchmarks. No file of src imports it.
export { ConntrackCleaner } from './conntrack-cleaner.js'
