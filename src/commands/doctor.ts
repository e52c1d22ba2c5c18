import { defaultControlSocket } from '../control-socket.js'
import { type Command, CommandError } from './command.js'

/** As its help has it, and by default. */
export const doctorIntervalSeconds = '5'

export const doctorCommand: Command = {
  name: 'doctor',
  help: 'problems of this node, each with its cause and its remedy',
  description:
    'Checks this node for the agent, whether it runs or not. If an agent answers on its control socket, its configuration is checked. Takes the flags of the agent, such as --config and --proxy-mode, which win over that configuration, and -o json. Prints problems first; with --all also each check that found none. It changes nothing on the node, and loads no module of the kernel.',
  arguments: [],
  options: [
    { name: 'output', metavar: 'FORMAT', help: 'how to print the findings: table, json or yaml' },
    { name: 'all', help: 'print each check that found no problem too' },
    { name: 'watch', help: 'check again and again, and print what changed, until SIGINT' },
    {
      name: 'interval',
      metavar: 'SECONDS',
      help: 'the time between two runs of --watch: 1 to 3600',
      initial: doctorIntervalSeconds,
    },
    {
      name: 'socket',
      metavar: 'FILE',
      help: 'the control socket of the agent whose configuration is checked',
      initial: defaultControlSocket,
    },
  ],
  examples: [
    { line: 'doctor', help: 'the problems of the running agent, or of one without flags' },
    { line: 'doctor --watch', help: 'the problems now, then each that begins or ends' },
    { line: 'doctor --config FILE --all', help: 'every check, for the configuration of a file' },
  ],
  finds: 'something is broken',
  isPlain: true,
  // The launcher runs the agent's bundle for it, except for its help.
  run: async () => {
    await Promise.resolve()
    throw new CommandError(2, 'run this command as dist/agent.js: it needs the bundle of the agent')
  },
}
