import { geteuid } from 'node:process'
import { ControlServer, controlPages } from '../control/index.js'
import { machineAddresses } from '../host/index.js'
import type { Inspected } from '../inspect/index.js'
import { isOwnTable } from '../kernel/index.js'
import { processStartMs } from '../metrics/index.js'
import type { BuildOptions, Shown } from './build.js'

/** The server of the control socket; undefined: the configuration has none. */
export function openControl(options: BuildOptions, shown: Shown): ControlServer | undefined {
  const { config, flagTexts: flags, kernel, clock, log, registry } = options
  if (config.controlSocket === undefined) return undefined
  return new ControlServer({
    path: config.controlSocket,
    pages: controlPages(inspected(options, shown), {
      log: () => log.recentLines?.() ?? [],
      flags,
      metrics: async () => await registry.metrics(),
    }),
    kernel,
    ownUid: geteuid?.() ?? 0,
    clock,
    log,
    build: config,
  })
}

/** The parts of the agent for snapshots. */
export function inspected({ config, clock, kernel, log, registry }: BuildOptions, shown: Shown): Inspected {
  return {
    ...shown,
    config,
    machineAddresses: async (family) => await machineAddresses(family, kernel),
    routing: {
      lookUp: async (questions) => await kernel.routes.lookUp(questions),
      links: async () => await kernel.links.list(),
      sysctl: async (path) => await kernel.sysctl.read(path),
    },
    firewall: async (family) => await kernel.firewall(family, { isLeftOut: isOwnTable, hasLegacyNat: true }),
    flows: async (...asked) => await kernel.conntrack.listFlows(...asked),
    flowCounts: async (...asked) => await kernel.conntrack.countFlows(...asked),
    problems: () => [...(log.reporters ?? [])].flatMap((reporter) => reporter.present),
    metric: async (name) => (await registry.getSingleMetric(name)?.get())?.values ?? [],
    startedMs: processStartMs(clock),
    clock,
  }
}
