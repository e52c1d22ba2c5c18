// The command that lists the connections of Services.
import type { Connections } from '../inspect/index.js'
import { duration, portText } from '../words.js'
import { columns } from './columns.js'
import type { Command } from './command.js'
import { parametersOf, service } from './services.js'

export const connectionsCommand: Command = {
  name: 'connections',
  help: 'the connections of Services that the kernel tracks',
  description:
    'Prints a line for each connection of a Service that conntrack has: the client, the frontend, the endpoint, the state of TCP, and the time after which the kernel forgets the connection if no packet comes. At most 1000 lines. The endpoint of userspace mode is not known to conntrack.',
  arguments: [service],
  options: [],
  examples: [
    { line: 'connections', help: 'of all Services' },
    { line: 'connections default/web', help: 'of one Service' },
  ],
  run: async ({ ask, arguments: [name] }) => {
    const value = await ask('connections', parametersOf(name))
    return { value, table: () => table(value) }
  },
}

function table({ connections, total }: Connections): string {
  const rows = connections.map((row) => [
    portText(row),
    row.client,
    row.frontend,
    row.endpoint ?? '',
    row.state ?? '',
    duration(row.timeoutSeconds),
  ])
  const lines = columns(['SERVICE PORT', 'CLIENT', 'FRONTEND', 'ENDPOINT', 'STATE', 'TIMEOUT'], rows)
  const more = total - connections.length
  return more > 0 ? `${lines}${more} more connections: name a Service to see its own\n` : lines
}
