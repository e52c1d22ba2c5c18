// The inside of this room, for tests and benchmarks. No file of src imports it.
export { compareStandings, standingOf } from './frontend-owners.js'
