// The commands that list Services, endpoints and routes.
import { printable } from '../words.js'
import type { Argument, Ask, Command, Invocation } from './command.js'
import { countersOption, countersText } from './counters.js'

export const service: Argument = { name: 'NS/NAME', isRequired: false, help: 'only this Service' }

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
