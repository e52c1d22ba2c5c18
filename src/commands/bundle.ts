import { defaultControlSocket } from '../control-socket.js'
import { type Command, CommandError } from './command.js'

export const bundleCommand: Command = {
  name: 'bundle',
  help: 'an archive for a bug report, without secrets',
  description:
    'Writes a tar.gz with the state of the agent (status, Services, endpoints, routes, history, configuration, flags, the last lines of its log, metrics), the kernel objects that the agent or kube-proxy has made, in the syntax of the tools, the findings of doctor, and versions. Credentials are left out; names and addresses of the cluster are not. A part that cannot be made becomes NAME.error. Without an agent the archive has the other parts. Takes the flags of the agent, which doctor checks when no agent runs. It changes nothing on the node.',
  arguments: [],
  options: [
    {
      name: 'file',
      short: 'f',
      metavar: 'FILE',
      help: 'where to write; it must not exist; "-": standard output; default: viaduct-bundle-NODE-TIME.tar.gz in this folder',
    },
    { name: 'socket', metavar: 'FILE', help: "the agent's control socket", initial: defaultControlSocket },
  ],
  examples: [
    { line: 'bundle', help: 'an archive in this folder' },
    { line: 'bundle -f - | ssh HOST "cat > bundle.tar.gz"', help: 'an archive on another host' },
  ],
  finds: 'the archive lacks a part, or cannot be written',
  isPlain: true,
  // The launcher runs the agent's bundle for it, except for its help.
  run: async () => {
    await Promise.resolve()
    throw new CommandError(2, 'run this command as dist/agent.js: it needs the bundle of the agent')
  },
}
