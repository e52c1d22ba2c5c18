// The commands that list Services, endpoints and routes.
import { systemClock } from '../clock.js'
import type { EndpointRow, EndpointUse, RouteRow, ServiceRow } from '../inspect/index.js'
import { columns, printable } from './columns.js'
import type { Argument, Command, Invocation } from './command.js'
import { counterCells, counterHeadings, countersOption, countersText } from './counters.js'
import { duration } from './words.js'

export const service: Argument = { name: 'NS/NAME', isRequired: false, help: 'only this Service' }

export const servicesCommand: Command = {
  name: 'services',
  help: 'the Services that the agent programs',
  description: `Prints a line for each port of each Service and IP family: its addresses, the numbers of its endpoints (usable of all; for policy Local, those of this node), and what happens to new connections: serve, refuse or drop. IN FORCE is the time since which its last change is in the kernel; it is blank while that is not known, as when the kernel refuses an object of that family. ${countersText}`,
  arguments: [service],
  options: [countersOption],
  examples: [
    { line: 'services', help: 'all Services' },
    { line: 'services default/web --counters', help: 'the traffic of one Service' },
    { line: 'services kube-system/kube-dns -o yaml', help: 'one Service as YAML' },
  ],
  run: async ({ ask, arguments: [name], options }) => {
    const value = await ask('services', parametersOf(name, options))
    return {
      value,
      table: () =>
        options['counters'] === true
          ? serviceCounters(value.items)
          : serviceTable(value.items, systemClock.unixMs()),
    }
  },
}

export const endpointsCommand: Command = {
  name: 'endpoints',
  help: 'the endpoints of Services, and why each is used or not',
  description: `Prints a line for each endpoint of each Service port: its node, its conditions, and whether traffic of policy Cluster and of policy Local uses it, with the reason. ${countersText}`,
  arguments: [service],
  options: [countersOption],
  examples: [{ line: 'endpoints default/web', help: 'the endpoints of one Service' }],
  run: async ({ ask, arguments: [name], options }) => {
    const value = await ask('endpoints', parametersOf(name, options))
    return {
      value,
      table: () =>
        options['counters'] === true ? endpointCounters(value.items) : endpointTable(value.items),
    }
  },
}

export const routesCommand: Command = {
  name: 'routes',
  help: 'the frontends of Services, and where each leads',
  description: `Prints a line for each frontend: what happens to new connections, to how many endpoints they go, and why. For one Service it also prints the kernel objects that the proxy mode desires, in the syntax of the tools that list them. ${countersText}`,
  arguments: [service],
  options: [countersOption],
  examples: [
    { line: 'routes', help: 'all frontends' },
    { line: 'routes default/web', help: 'the frontends and kernel objects of one Service' },
  ],
  run: async ({ ask, arguments: [name], options }) => {
    const value = await ask('routes', parametersOf(name, options))
    return {
      value,
      table: () => (options['counters'] === true ? routeCounters(value.items) : routeTable(value.items)),
    }
  },
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

type PortName = Pick<ServiceRow, 'service' | 'port' | 'protocol'>

/** `default/web:http/TCP`. */
export function nameOf({ service: name, port, protocol }: PortName): string {
  return `${name}:${port === '' ? '' : `${port}/`}${protocol}`
}

/** `3h7m`. A clock that was set back gives `0s`. */
function inForceText(since: string | undefined, nowMs: number): string {
  if (since === undefined) return ''
  return duration(Math.max(0, Math.floor((nowMs - Date.parse(since)) / 1000)))
}

function serviceTable(items: readonly ServiceRow[], nowMs: number): string {
  return columns(
    [
      'SERVICE PORT',
      'CLUSTER IP',
      'NODE PORT',
      'EXTERNAL IPS',
      'ENDPOINTS',
      'LOCAL',
      'INTERNAL',
      'EXTERNAL',
      'IN FORCE',
    ],
    items.map((item) => [
      nameOf(item),
      item.clusterIP,
      item.nodePort === 0 ? '' : item.nodePort,
      item.externalIPs.join(','),
      `${item.endpoints.cluster}/${item.endpoints.all}`,
      item.endpoints.local,
      item.internal,
      item.external ?? '',
      inForceText(item.since, nowMs),
    ]),
  )
}

function serviceCounters(items: readonly ServiceRow[]): string {
  return columns(
    ['SERVICE PORT', 'CLUSTER IP', ...counterHeadings],
    items.map((item) => [nameOf(item), item.clusterIP, ...counterCells(item.counters)]),
  )
}

function endpointCounters(items: readonly EndpointRow[]): string {
  return columns(
    ['SERVICE PORT', 'ENDPOINT', ...counterHeadings],
    items.map((item) => [nameOf(item), item.endpoint, ...counterCells(item.counters)]),
  )
}

function routeCounters(items: readonly RouteRow[]): string {
  return columns(
    ['SERVICE PORT', 'FRONTEND', ...counterHeadings],
    items.map((item) => [nameOf(item), item.frontend, ...counterCells(item.counters)]),
  )
}

function endpointTable(items: readonly EndpointRow[]): string {
  return columns(
    ['SERVICE PORT', 'ENDPOINT', 'NODE', 'CONDITIONS', 'CLUSTER', 'LOCAL'],
    items.map((item) => [
      nameOf(item),
      item.endpoint,
      item.node,
      Object.entries(item.conditions)
        .filter(([, isSet]) => isSet)
        .map(([name]) => name)
        .join(','),
      useText(item.cluster),
      useText(item.local),
    ]),
  )
}

function useText({ isUsed, text }: EndpointUse): string {
  return `${isUsed ? 'yes' : 'no'}: ${text}`
}

function routeTable(items: readonly RouteRow[]): string {
  const table = columns(
    ['SERVICE PORT', 'FRONTEND', 'VERDICT', 'BACKENDS', 'REASONS'],
    items.map((item) => [
      nameOf(item),
      item.frontend,
      item.verdict,
      item.backends.length,
      item.reasons.map(({ text }) => text).join('; '),
    ]),
  )
  const kernel = items.flatMap((item) => item.kernel ?? [])
  if (kernel.length === 0) return table
  return `${table}\nKernel objects:\n${kernel.map((line) => `  ${printable(line)}\n`).join('')}`
}
