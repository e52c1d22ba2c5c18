// Rights and limits of this process, connection tracking, ports, and the configuration.
import { isViaduct } from './agent-checks.js'
import {
  asRoot,
  type Check,
  type Examined,
  nodePorts,
  ok,
  problemsOr,
  type Verdict,
  hasNetAdmin,
  hasOwn,
  isOtherUser,
} from './check.js'

const fullPercent = 80
const fewFiles = 1024

const withoutBindService: Verdict = {
  status: 'broken',
  seen: 'this process does not have CAP_NET_BIND_SERVICE',
  cause: 'In userspace mode an agent with the same rights serves no port below 1024.',
  remedy: 'Run the agent as root, or give its container the capability NET_BIND_SERVICE.',
}

export const limitChecks: readonly Check[] = [
  {
    name: 'rights',
    looksAt: 'the capabilities of this process',
    run: async (node) => {
      const lacksPorts = node.config.mode === 'userspace' && !(await hasOwn(node, 'CAP_NET_BIND_SERVICE'))
      if (await hasNetAdmin(node)) return lacksPorts ? [withoutBindService] : ok('CAP_NET_ADMIN is there')
      if (await isOtherUser(node))
        return [
          {
            status: 'unknown',
            seen: 'this process is not root and does not have CAP_NET_ADMIN',
            cause: 'Whether the agent has it is not known.',
            remedy: asRoot,
          },
        ]
      return [
        {
          status: 'broken',
          seen: 'this process does not have CAP_NET_ADMIN',
          cause: 'An agent with the same rights can program nothing.',
          remedy: 'Run the agent as root, or give its container the capability NET_ADMIN.',
        },
      ]
    },
  },
  {
    name: 'open-files',
    looksAt: 'the limit of open files of this process',
    run: async ({ read }) => {
      const limit = /^Max open files\s+(?<soft>\d+|unlimited)/mu.exec((await read('/proc/self/limits')) ?? '')
        ?.groups?.['soft']
      if (limit === undefined) throw new Error('/proc/self/limits shows no limit of open files')
      if (!(Number(limit) < fewFiles)) return ok(`the limit is ${limit}`)
      return [
        {
          status: 'warning',
          seen: `this process may open ${limit} files`,
          cause: 'The relay and held node ports need a descriptor for each connection and port.',
          remedy: 'Raise it: LimitNOFILE in the systemd unit, or the limit of the container runtime.',
        },
      ]
    },
  },
  {
    name: 'conntrack',
    looksAt: 'the number of tracked connections and its limit',
    run: async ({ read }) => {
      const place = '/proc/sys/net/netfilter/nf_conntrack_'
      const texts = [await read(`${place}count`), await read(`${place}max`)]
      if (texts.includes(undefined)) return ok('connection tracking is not loaded')
      const [count = 0, max = 0] = texts.map(Number)
      if (max === 0 || count * 100 < max * fullPercent) return ok(`${count} of ${max} connections`)
      return [
        {
          status: count * 100 >= max * 95 ? 'broken' : 'warning',
          seen: `the connection table has ${count} of ${max} entries`,
          cause: 'The kernel drops new connections when the table is full.',
          remedy:
            'Raise --conntrack-max-per-core and --conntrack-min, or find the program that opens the connections: conntrack -S.',
        },
      ]
    },
  },
  {
    name: 'server-ports',
    looksAt: 'the ports of the health and metrics servers',
    run: async (node) => {
      const { healthzBindAddress: health, metricsBindAddress: metrics } = node.config.servers
      const ports = [health, metrics].flatMap((address) => (address === undefined ? [] : [address.port]))
      // The processes of an agent in another PID namespace are hidden, and it has these ports.
      const isOfAgent = (program: string): boolean =>
        program === unknownProgram && node.agent.status !== undefined
      const found = (await listeners(node, ports)).filter(({ program }) => !isOfAgent(program))
      return problemsOr(
        found.map(
          (place) =>
            unseenProgram(node, place) ?? {
              status: 'broken',
              seen: `TCP port ${place.port} belongs to ${place.program}`,
              cause: 'The health or metrics server of the agent cannot listen.',
              remedy: 'Stop that program, or set --healthz-bind-address or --metrics-bind-address.',
            },
        ),
        'free, or an agent has them',
      )
    },
  },
  {
    name: 'node-port-range',
    looksAt: 'ip_local_port_range and ip_local_reserved_ports',
    run: async ({ read }) => {
      const place = '/proc/sys/net/ipv4/ip_local_'
      const range = /^(?<first>\d+)\s+(?<last>\d+)$/mu.exec((await read(`${place}port_range`)) ?? '')?.groups
      if (range === undefined) throw new Error(`${place}port_range shows no range`)
      const [first, last] = [Number(range['first']), Number(range['last'])]
      const from = Math.max(first, nodePorts.first)
      const to = Math.min(last, nodePorts.last)
      const reserved = ((await read(`${place}reserved_ports`)) ?? '').trim().split(',')
      const isReserved = reserved.some((text) => {
        const [low = 0, high = low] = text.split('-').map(Number)
        return low <= from && high >= to
      })
      if (from > to || isReserved) return ok(`outgoing connections use ${first} to ${last}`)
      return [
        {
          status: 'warning',
          seen: `outgoing connections may use the node ports ${from} to ${to}`,
          cause: 'Answers to a connection of this node may be taken for connections to a node port.',
          remedy: `Reserve them: sysctl -w net.ipv4.ip_local_reserved_ports=${nodePorts.first}-${nodePorts.last}.`,
        },
      ]
    },
  },
  {
    name: 'node-port-programs',
    looksAt: `programs that listen on TCP ports ${nodePorts.first} to ${nodePorts.last}`,
    run: async (node) => {
      const ports = Array.from(
        { length: nodePorts.last - nodePorts.first + 1 },
        (_, index) => nodePorts.first + index,
      )
      return problemsOr(
        (await listeners(node, ports)).map(
          (place) =>
            unseenProgram(node, place) ?? {
              status: 'warning',
              seen: `TCP port ${place.port} belongs to ${place.program}`,
              cause: 'A Service with this node port takes the connections to the program.',
              remedy: 'Move the program to another port, or keep the port out of --service-node-port-range.',
            },
        ),
        'no other program listens there',
      )
    },
  },
  {
    name: 'configuration',
    looksAt: 'flags and fields without effect, and unknown feature gates',
    run: async ({ inputWarnings }) =>
      problemsOr(
        inputWarnings.map((seen) => ({
          status: 'warning',
          seen,
          cause: 'The agent ignores these settings.',
          remedy: 'Remove them, or correct their names (docs/flags.md).',
        })),
        'every setting has its effect',
      ),
  },
]

interface ListeningProgram {
  readonly port: number
  readonly program: string
}

/** Programs other than an agent that listen on one of the ports, each once. */
async function listeners(node: Examined, ports: readonly number[]): Promise<readonly ListeningProgram[]> {
  if (!node.canAskSockets) return await listenersOfFiles(node, ports)
  const { kernel, processes } = node
  const found = new Map<string, ListeningProgram>()
  for (const family of ['ipv4', 'ipv6'] as const) {
    const watched = ports.map((port) => ({ protocol: 'tcp', port }) as const)
    for (const { port, process, isHeld } of await kernel.ports.find(family, watched)) {
      const command = processes.find(({ pid }) => pid === process?.pid)?.command ?? ''
      if (isHeld || isViaduct(command)) continue
      const program = process === undefined ? unknownProgram : `${process.name} (pid ${process.pid})`
      found.set(`${port} ${program}`, { port, program })
    }
  }
  return [...found.values()]
}

const unknownProgram = 'an unknown program'

/** The verdict where /proc hides the program that listens, which may be the agent. undefined: /proc hides none. */
function unseenProgram(
  { unplacedProcesses, seesAllProcesses }: Examined,
  { port, program }: ListeningProgram,
): Verdict | undefined {
  if (program !== unknownProgram || (seesAllProcesses && unplacedProcesses.length === 0)) return undefined
  return {
    status: 'unknown',
    seen: `TCP port ${port} belongs to a program that this process may not see`,
    cause: 'It may be the agent, or another program.',
    remedy: `Look on the node as root: ss -ltnp sport = :${port}.`,
  }
}

/** The same by /proc/net, which does not name the programs. While an agent runs, the ports may be its own. */
async function listenersOfFiles(
  { read, processes }: Examined,
  ports: readonly number[],
): Promise<readonly ListeningProgram[]> {
  if (processes.some(({ command }) => isViaduct(command))) return []
  const texts = [await read('/proc/net/tcp'), await read('/proc/net/tcp6')]
  const listening = new Set(
    texts.flatMap((text = '') =>
      [...text.matchAll(/^ *\d+: [0-9A-F]+:(?<port>[0-9A-F]{4}) \S+ 0A /gmu)].map(({ groups }) =>
        Number.parseInt(groups?.['port'] ?? '', 16),
      ),
    ),
  )
  return ports.filter((port) => listening.has(port)).map((port) => ({ port, program: unknownProgram }))
}
