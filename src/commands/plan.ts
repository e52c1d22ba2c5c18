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
    'Prints what a start of the agent would change in the kernel of a node on which kube-proxy in any mode, another agent, or nothing runs. It changes nothing, loads no module, opens no port and sends no Event. Each section has the syntax of the tool that its heading names. A tool whose heading reads standard input (ip, nft, iptables-restore, ipset, ipvsadm) takes the section as it is; each line of sysctl and conntrack has the arguments of one call; held ports and the relay are sockets of the agent, for which there is no tool. In the table kube-proxy of nftables mode and of iptables mode in the flavour nft, nft (1.0.6) does not read a rule that compares the value of a map (map @service-endpoint-counts != 0), a key with ct original proto-dst, and gc-interval of a map: these lines only describe, and the heading says so. Takes the flags of the agent, such as --config and --proxy-mode. If the kernel cannot run the mode, the plan is that of the fallback, and says why. With --manifests it needs no API server.',
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
