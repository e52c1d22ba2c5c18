// In: the arguments of `viaduct COMMAND`; the control socket of a running agent. Out: text, JSON or YAML, and an exit code.
// Never: a change of the agent or the kernel. A client of the socket needs neither the addon nor the agent's bundle.
// Owner of: the table of commands: help, completion and docs/commands.md follow from it.
// Read next: command.ts (a row), run-command.ts (with the table), client.ts.
export { CommandError, commonOptions, optionsOf } from './command.js'
export { commands, exitCodes, runCommand, endWithReaders } from './run-command.js'
export { doctorIntervalSeconds, handOverTimeoutSeconds } from './agent-commands.js'
export { AgentClient, askingAt } from './client.js'
export type { Known } from './shapes.js'
