// The command that lists the connections of Services.
import type { Cell } from '../columns.js'
import type { ConnectionRow, Connections } from '../inspect/index.js'
import { duration, portText } from '../words.js'
import { columns } from './columns.js'
import { type Command, CommandError } from './command.js'
import type { Known } from './shape.js'
import { service } from './services.js'

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
