// In: the process's arguments. Out: the configuration, or a text and an exit code.
// Never: exit, print, read the environment, or a file except by the function that it gets.
// Owner of: the grammar of the command line.
// Read next: parse-arguments.ts; config/ (the table of settings); docs/flags.md.
export { flags, parseArguments, type ConfigFile, type Configuration } from './parse-arguments.js'
export {
  parseDoctorArguments,
  type DoctorArguments,
  parseHandOverArguments,
  parsePlanArguments,
  type PlanArguments,
} from './command-arguments.js'
