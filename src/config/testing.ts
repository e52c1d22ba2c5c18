// The inside of this room, for tests and benchmarks. No file of src imports it.
export { formatDuration, parseDuration } from './duration.js'
export type { ClientConnection } from './settings.js'
