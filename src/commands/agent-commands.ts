// The commands that the agent's bundle runs (launch.cts): here they have only their help.
import { defaultControlSocket } from '../control-socket.js'
import { type Command, CommandError, type Option } from './command.js'

/** The agent's bundle runs these commands (launch.cts): here they have only their help. */
async function runElsewhere(): Promise<never> {
  throw new CommandError(2, 'run this command as dist/agent.js: it needs the bundle of the agent')
}

const own: readonly Option[] = [
  {
    name: 'output',
    short: 'o',
    metavar: 'FORMAT',
    help: 'how to print the result',
    choices: ['table', 'json', 'yaml'],
    initial: 'table',
  },
  { name: 'summary', help: 'print only the counts' },
  {
    name: 'timeout',
    metavar: 'SECONDS',
    help: 'longest wait until all objects are read and planned',
    initial: '60',
  },
]

export const planCommand: Command = {
  name: 'plan',
  help: 'what a start of the agent would change on this node',
  description:
    'Prints what a start of the agent would change in the kernel of a node on which kube-proxy in any mode, another agent, or nothing runs. It changes nothing, loads no module, opens no port and sends no Event. Each section has the syntax of the tool that its heading names. A tool whose heading reads standard input (ip, nft, iptables-restore, ipset, ipvsadm) takes the section as it is; each line of sysctl and conntrack has the arguments of one call; held ports and the relay are sockets of the agent, for which there is no tool. Takes the flags of the agent, such as --config and --proxy-mode. If the kernel cannot run the mode, the plan is that of the fallback, and says why. With --manifests it needs no API server.',
  arguments: [],
  options: own,
  examples: [
    { line: 'plan --proxy-mode nftables', help: 'the change from what runs now to nftables mode' },
    { line: 'plan --manifests DIR --summary', help: 'only the counts, for Services from files' },
    { line: 'plan --config FILE -o json', help: 'the operations as values' },
  ],
  finds:
    'the plan cannot be made: an error of the kernel or the configuration, an object that cannot be read, or the time is over',
  isPlain: true,
  run: runElsewhere,
}

export const diffCommand: Command = {
  name: 'diff',
  help: 'the differences between the kernel and what the agent desires',
  description:
    'Takes the configuration of the running agent, reads its objects from the API server or the manifests again, and compares what they require with the kernel. A line that begins with - is only in the kernel, one with + only desired. The Service that owns the object follows. It repairs nothing.',
  arguments: [],
  options: [
    ...own,
    { name: 'socket', metavar: 'FILE', help: "the agent's control socket", initial: defaultControlSocket },
  ],
  examples: [{ line: 'diff', help: 'all differences; exit code 0 if there are none' }],
  finds: 'there are differences, or they cannot be found',
  isPlain: true,
  run: runElsewhere,
}

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
  run: runElsewhere,
}

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
  run: runElsewhere,
}

/** As its help has it, and by default. */
export const handOverTimeoutSeconds = '600'

export const handOverCommand: Command = {
  name: 'hand-over',
  help: 'keeps Services reachable while kube-proxy takes the node back',
  description:
    'kube-proxy in its modes iptables and ipvs deletes the table kube-proxy of nf_tables when it starts, and writes its rules later. This command copies the table of nftables mode, or of iptables mode in the flavour nft, to the table viaduct-hand-over, whose chains come after those of kube-proxy. It waits until kube-proxy has written its rules in each family, and deletes the copy. Start it first, then stop the agent, then start kube-proxy. The copy does not follow changes of Services. The kernel deletes it when the command ends in any way. Needs root and Linux 5.13.',
  arguments: [],
  options: [
    {
      name: 'timeout',
      metavar: 'SECONDS',
      help: 'longest wait for kube-proxy; then the copy is deleted',
      initial: handOverTimeoutSeconds,
    },
  ],
  examples: [{ line: 'hand-over', help: 'copy, wait for kube-proxy, delete the copy' }],
  finds: 'kube-proxy has not written its rules in time, or the table cannot be copied',
  isPlain: true,
  run: runElsewhere,
}
