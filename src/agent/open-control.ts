import { geteuid } from 'node:process'
import type { Registry } from 'prom-client'
import type { Configuration } from '../cli/index.js'
import type { Clock } from '../clock.js'
import type { ProxyMode } from '../config/index.js'
import { ControlServer, controlPages } from '../control/index.js'
import { machineAddresses } from '../host/index.js'
import type { Inspected } from '../inspect/index.js'
import { isOwnTable, type Kernel, type XtFlavour } from '../kernel/index.js'
import type { AdjustableLog } from '../log.js'
import { processStartMs } from '../metrics/index.js'
import type { NodeTracker } from '../node/index.js'
import type { Synchronizer } from '../engine/index.js'

/** The parts of the agent that its pages show. */
export interface Shown {
  readonly mode: ProxyMode
  /** undefined: the mode has no rules of x_tables. */
  readonly flavour: XtFlavour | undefined
  readonly node: NodeTracker
  readonly synchronizer: Synchronizer
}

/** The agent's own parts that its pages read. */
export interface PageOptions extends Pick<Configuration, 'config' | 'flagTexts'> {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: AdjustableLog
  readonly registry: Registry
}

/** The server of the control socket; undefined: the configuration has none. */
export function openControl(options: PageOptions, shown: Shown): ControlServer | undefined {
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
export function inspected({ config, clock, kernel, log, registry }: PageOptions, shown: Shown): Inspected {
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
