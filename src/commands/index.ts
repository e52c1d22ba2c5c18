// In: the arguments of `viaduct COMMAND`; the control socket of a running agent. Out: text, JSON or YAML, and an exit code.
// Never: a change of the agent or the kernel. A client of the socket needs neither the addon nor the agent's bundle.
// Owner of: the table of commands: help, completion and docs/commands.md follow from it.
// Read next: command.ts (a row), table.ts (the table), run-command.ts, client.ts.
export { CommandError } from './command.js'
export { commands } from './table.js'
export { commonOptions, optionsOf } from './command.js'
export { exitCodes, runCommand } from './run-command.js'
export { doctorIntervalSeconds } from './doctor.js'
export { handOverTimeoutSeconds } from './hand-over.js'
export { AgentClient, askingAt } from './client.js'
export type { Known } from './shape.js'
export { endWithReaders } from './closed-output.js'
