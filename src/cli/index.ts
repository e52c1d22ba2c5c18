// In: the process's arguments. Out: Config, or a text and an exit code.
// Never: exit, print, read the environment, or a file but by the function that it is given.
// Owner of: flags' names and help.
// Read next: flags.ts (the table); config/ (defaults and validation); docs/flags.md.
export type { Flag } from './flag.js'
export { flags } from './flags.js'
export { parseArguments, flagTexts, type ConfigFile, type Invocation } from './parse-arguments.js'
