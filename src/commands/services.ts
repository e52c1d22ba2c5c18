// The commands that list Services, endpoints, routes and connections.
import { printable, duration, portText, type Cell, columns } from '../words.js'
import type { ConnectionRow, Connections } from '../inspect/index.js'
import {
  type Argument,
  type Ask,
  type Command,
  type Invocation,
  CommandError,
  type Option,
} from './command.js'
import type { Known } from './shapes.js'

const countersOption: Option = {
  name: 'counters',
  help: 'read the counters of the kernel too',
}

/** For descriptions. */
const countersText =
  'With --counters it shows how many connections and how much traffic there were, instead of the other columns. A counter shown as - does not exist in this proxy mode, or the kernel has no object for the row now (docs/operations.md, section Counters).'

const service: Argument = { name: 'NS/NAME', isRequired: false, help: 'only this Service' }

export const servicesCommand: Command = {
  name: 'services',
  help: 'the Services that the agent programs',
  description: `Prints a line for each port of each Service and IP family: its addresses, the numbers of its endpoints (usable of all; for policy Local, those of this node), and what happens to new connections: serve, refuse or drop. conflict means that another Service, this node or another machine has the address and port; after a comma it means some of the external addresses, and routes shows which. IN FORCE is the time since which its last change is in the kernel; it is blank while that is not known, as when the kernel refuses an object of that family. ${countersText}`,
  arguments: [service],
  options: [countersOption],
  examples: [
    { line: 'services', help: 'all Services' },
    { line: 'services default/web --counters', help: 'the traffic of one Service' },
    { line: 'services kube-system/kube-dns -o yaml', help: 'one Service as YAML' },
  ],
  run: async ({ arguments: [name], options }) => ({
    name: 'services',
    parameters: parametersOf(name, options),
  }),
}

export const endpointsCommand: Command = {
  name: 'endpoints',
  help: 'the endpoints of Services, and why each is used or not',
  description: `Prints a line for each endpoint of each Service port: its node, its conditions, and whether traffic of policy Cluster and of policy Local uses it, with the reason. ${countersText}`,
  arguments: [service],
  options: [countersOption],
  examples: [{ line: 'endpoints default/web', help: 'the endpoints of one Service' }],
  run: async ({ arguments: [name], options }) => ({
    name: 'endpoints',
    parameters: parametersOf(name, options),
  }),
}

export const routesCommand: Command = {
  name: 'routes',
  help: 'the frontends of Services, and where each leads',
  description: `Prints a line for each frontend: what happens to new connections, to how many endpoints they go, and why. conflict means that another Service, this node or another machine has the address and port. For one Service it also prints the kernel objects that the proxy mode desires, in the syntax of the tools that list them. ${countersText}`,
  arguments: [service],
  options: [countersOption],
  examples: [
    { line: 'routes', help: 'all frontends' },
    { line: 'routes default/web', help: 'the frontends and kernel objects of one Service' },
  ],
  run: async ({ ask, arguments: [name], options }) => ({
    name: 'routes',
    parameters: parametersOf(name, options),
    ...(name === undefined || options['counters'] === true
      ? {}
      : { afterTable: async () => await kernelLines(ask, name) }),
  }),
}

function parametersOf(
  name: string | undefined,
  options: Invocation['options'],
): Readonly<Record<string, string>> {
  return {
    ...(name === undefined ? {} : { service: name }),
    ...(options['counters'] === true ? { counters: 'true' } : {}),
  }
}

/** The kernel objects of one Service, after its routes. */
async function kernelLines(ask: Ask, name: string): Promise<string> {
  const {
    known: { items = [] },
  } = await ask('routes', { service: name })
  const lines = items.flatMap(({ kernel = [] }) => kernel)
  if (lines.length === 0) return ''
  return `\nKernel objects:\n${lines.map((line) => `  ${printable(line)}\n`).join('')}`
}

export const connectionsCommand: Command = {
  name: 'connections',
  help: 'the present connections of Services',
  description:
    'Prints a line for each connection of a Service: the client, the frontend, the endpoint, the state of TCP, and the time after which the kernel forgets the connection if no packet comes. At most 1000 lines. ipvs mode shows the connections of IPVS, userspace mode those of the relay, which have no such time, and other modes those of conntrack.',
  arguments: [service],
  options: [{ name: 'service', metavar: 'NS/NAME', help: 'as the argument: only this Service' }],
  examples: [
    { line: 'connections', help: 'of all Services' },
    { line: 'connections --service default/web', help: 'of one Service' },
  ],
  run: async ({ ask, arguments: [name], options }) => {
    const only = serviceOf(name, options['service'])
    const { value, known } = await ask('connections', only === undefined ? {} : { service: only })
    return { value, table: () => table(known) }
  },
}

/** The Service that the argument or --service names. Throws CommandError if they name two. */
function serviceOf(name: string | undefined, option: string | true | undefined): string | undefined {
  if (typeof option !== 'string') return name
  if (name !== undefined && name !== option)
    throw new CommandError(2, `${name} and --service ${option} are two Services: name one`)
  return option
}

/** The service port of a row. */
function portCell({ service: name, port = '', protocol = '-' }: Known<ConnectionRow>): Cell {
  return name === undefined ? undefined : portText({ service: name, port, protocol })
}

function table({ connections = [], total = connections.length }: Known<Connections>): string {
  const rows = connections.map((row) => [
    portCell(row),
    row.client,
    row.frontend,
    row.endpoint,
    row.state,
    row.timeoutSeconds === undefined ? undefined : duration(row.timeoutSeconds),
  ])
  const lines = columns(['SERVICE PORT', 'CLIENT', 'FRONTEND', 'ENDPOINT', 'STATE', 'TIMEOUT'], rows)
  const more = total - connections.length
  return more > 0 ? `${lines}${more} more connections: name a Service to see its own\n` : lines
}
