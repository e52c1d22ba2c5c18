// In: Config, a kernel, a log. Out: a running agent, or one of the tasks that run instead; the exit code.
// Never: holds logic; it builds, connects, starts, waits and stops.
// Owner of: the order in which the rooms start and stop.
// Read next: run.ts; build.ts; tasks.ts.
export { run } from './run.js'
export { runPlanCommand } from './plan-command.js'
export { runHandOver } from './hand-over-command.js'
export { runBundle } from './bundle-command.js'
export { runDoctor } from './doctor-command.js'
export { cleanUp, initialise, writeConfig } from './tasks.js'
export { adviceOn } from './advice.js'
