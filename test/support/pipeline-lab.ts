// The agent's rooms between source and kernel, on the model kernel and a clock that tests move.
import { Registry } from 'prom-client'
import type { IpFamily } from '../../src/address.js'
import {
  AddressCursor,
  RealServerCursor,
  RouteCursor,
  VirtualServerCursor,
  viaductRouteProtocol,
  type XtFlavour,
} from '../../src/kernel/index.js'
import { openModelKernel, type ModelKernel } from '../model/index.js'
import { resolveConfig, type ConfigInput, type ProxyMode, type VipBinding } from '../../src/config/index.js'
import type { EventReport } from '../../src/event.js'
import type { AdjustableLog, LogFields } from '../../src/log.js'
import { type LocalhostNodePortCounts, openMetrics } from '../../src/metrics/index.js'
import { NodeTracker } from '../../src/node/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { iptablesMode } from '../../src/modes/iptables/testing.js'
import { ipvsMode, IpvsSettings } from '../../src/modes/ipvs/testing.js'
import { nftablesMode } from '../../src/modes/nftables/testing.js'
import { userspaceMode } from '../../src/modes/userspace/testing.js'
import {
  type HealthCheckListeners,
  Intake,
  type Mode,
  openProblems,
  Synchronizer,
} from '../../src/engine/index.js'
import { type Pipeline } from '../../src/engine/testing.js'
import { ManualClock, settle } from './manual-clock.js'
import { formerChains, leavingGuards, openHousekeeping } from '../../src/agent/testing.js'
import { noFiles } from './no-files.js'
import { openGate } from './open-gate.js'

export { ip } from './routes.js'

export interface LabOptions {
  readonly kernel?: ModelKernel
  readonly vipBinding?: VipBinding
  readonly scheduler?: string
  readonly excludeCidrs?: readonly string[]
  /** The flavour of x_tables. Default: legacy. */
  readonly flavour?: XtFlavour
  /** Any other configuration; the default mode is ipvs. */
  readonly config?: ConfigInput
}

export interface LogLine {
  readonly level: 'error' | 'warn' | 'info' | 'debug'
  readonly message: string
  readonly fields: LogFields
}

/** A log in memory. */
export class MemoryLog implements AdjustableLog {
  readonly lines: LogLine[] = []
  verbosity = 0

  setVerbosity(verbosity: number): void {
    this.verbosity = verbosity
  }

  error(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'error', message, fields })
  }

  warn(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'warn', message, fields })
  }

  info(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'info', message, fields })
  }

  debug(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'debug', message, fields })
  }

  trace(): void {}

  writes(): boolean {
    return true
  }

  /** Messages of a level that contain the text. */
  find(level: LogLine['level'], text: string): readonly LogLine[] {
    return this.lines.filter((line) => line.level === level && line.message.includes(text))
  }
}

/** Health checks without servers. They record the last checks that they received. */
export class MemoryHealthChecks implements HealthCheckListeners {
  checks: Parameters<HealthCheckListeners['sync']>[0] = new Map()
  addresses: Parameters<HealthCheckListeners['sync']>[1] = []
  failures: Awaited<ReturnType<HealthCheckListeners['sync']>> = []

  async sync(checks: typeof this.checks, addresses: typeof this.addresses): Promise<typeof this.failures> {
    if (checks.size > 0) Object.assign(this, { checks, addresses })
    return checks.size > 0 ? this.failures : []
  }

  async stop(): Promise<void> {}
}

export class PipelineLab {
  readonly healthChecks = new MemoryHealthChecks()
  readonly kernel: ModelKernel
  readonly clock = new ManualClock()
  readonly log = new MemoryLog()
  readonly node = new NodeTracker('here')
  readonly registry = new Registry()
  readonly intake: Intake
  readonly synchronizer: Synchronizer
  readonly pipelines = new Map<IpFamily, Pipeline>()
  readonly crashes: unknown[] = []
  readonly countLocalhostNodePorts: () => LocalhostNodePortCounts
  /** Reports about objects, apart from the log. */
  readonly events: EventReport[] = []
  /** The state of the data plane for health checks of Services. May be called at any time. */
  readonly isHealthy = { ipv4: () => true, ipv6: () => true }

  constructor(options: LabOptions = {}) {
    this.kernel = options.kernel ?? openModelKernel()
    this.kernel.time.schedule = (delayMs, wake) => this.clock.schedule(delayMs, wake)
    const metrics = openMetrics(this.registry)
    const config = resolveConfig({
      manifests: 'none',
      mode: 'ipvs',
      ...options.config,
      vipBinding: options.vipBinding,
      ipvs: {
        ...options.config?.ipvs,
        scheduler: options.scheduler,
        excludeCIDRs: options.excludeCidrs,
        ...options.config?.ipvs,
      },
    })
    const events = { record: (event: EventReport) => void this.events.push(event) }
    const modeOptions = {
      formerChains,
      flavour: options.flavour ?? 'legacy',
      config,
      events,
      kernel: this.kernel,
      node: this.node,
      clock: this.clock,
      log: this.log,
      metrics,
      problems: openProblems({ log: this.log, events, count: (count) => metrics.objectsFailed.set(count) }),
      openHealthChecks: (family: IpFamily, isHealthy: () => boolean) => {
        this.isHealthy[family] = isHealthy
        return this.healthChecks
      },
    }
    const families: readonly IpFamily[] = ['ipv4', 'ipv6']
    const modes: Readonly<Record<ProxyMode, () => Mode>> = {
      iptables: () => iptablesMode(modeOptions, { families, dropsInvalid: true }),
      ipvs: () => ipvsMode(modeOptions, new IpvsSettings({ ...modeOptions, config: config.ipvs })),
      nftables: () => nftablesMode(modeOptions, families),
      userspace: () => userspaceMode(modeOptions, families),
    }
    const mode = modes[config.mode]()
    this.countLocalhostNodePorts = () => mode.countLocalhostNodePorts?.() ?? {}
    const openPipeline: Mode['openPipeline'] = (family, agent) => {
      const pipeline = mode.openPipeline(family, agent)
      this.pipelines.set(family, pipeline)
      return pipeline
    }
    this.intake = new Intake({ config, node: openGate(this.node), metrics })
    this.synchronizer = new Synchronizer({
      intake: this.intake,
      mode: { ...mode, openPipeline },
      housekeeping: openHousekeeping(mode, { ...modeOptions, savedFiles: noFiles }),
      prepareNode: leavingGuards(mode, modeOptions),
      onInForce: () => {},
      links: this.kernel.links,
      clock: this.clock,
      metrics,
      onCrash: (error) => this.crashes.push(error),
    })
    this.synchronizer.start()
  }

  /** Delivers events and waits for their effects at this time. */
  async deliver(...events: readonly ObjectEvent[]): Promise<void> {
    this.intake.deliver(events)
    await settle()
  }

  /** Operations since the last call, in order, as text. */
  takeOps(): readonly string[] {
    const { ipvs, routes } = this.kernel
    return [...ipvs.batches.take(), ...routes.batches.take()].map(describeOp)
  }

  async stop(): Promise<void> {
    await this.synchronizer.stop()
  }
}

type LabOp =
  | ReturnType<ModelKernel['ipvs']['batches']['take']>[number]
  | ReturnType<ModelKernel['routes']['batches']['take']>[number]

function describeOp(op: LabOp): string {
  if ('route' in op) return `${op.op} ${op.route.address}`
  if ('address' in op) return `${op.op} ${op.address.address}`
  const key = 'key' in op.server ? op.server.key : op.server
  const server = 'mark' in key ? `mark ${key.mark}` : `${key.protocol} ${key.address}:${key.port}`
  if (!('real' in op)) return `${op.op} ${server}`
  const real = 'key' in op.real ? op.real.key : op.real
  return `${op.op} ${server} ${real.address}:${real.port}`
}

/** All objects of the kernel as sorted lines. Equal states have equal lines. */
export async function snapshot(kernel: ModelKernel): Promise<readonly string[]> {
  const lines: string[] = []
  const links = new Map((await kernel.links.list()).map(({ index, name }) => [index, name]))
  for (const family of ['ipv4', 'ipv6'] as const) {
    lines.push(...(await virtualServerLines(kernel, family)))
    const routes = new RouteCursor(await kernel.routes.dumpLocalRoutes(family))
    for (let i = 0; i < routes.length; i++) {
      const { address, interfaceIndex, preferredSource, protocol } = routes.route(i)
      const source = preferredSource === undefined ? '' : ` src ${preferredSource}`
      if (protocol === viaductRouteProtocol)
        lines.push(`route ${address} dev ${links.get(interfaceIndex) ?? '?'}${source}`)
    }
    const addresses = new AddressCursor(await kernel.routes.dumpAddresses(family))
    for (let i = 0; i < addresses.length; i++) {
      const link = links.get(addresses.interfaceIndex(i)) ?? '?'
      if (link !== 'lo')
        lines.push(`address ${addresses.address(i)}/${addresses.prefixLength(i)} dev ${link}`)
    }
  }
  return lines.toSorted()
}

async function virtualServerLines(kernel: ModelKernel, family: IpFamily): Promise<readonly string[]> {
  const dump = await kernel.ipvs.dump(family)
  const servers = new VirtualServerCursor(dump.virtualServers)
  const reals = new RealServerCursor(dump.realServers)
  return Array.from({ length: servers.length }, (_, i) => {
    const { scheduler, flags, timeoutSeconds } = servers.settings(i)
    const first = servers.firstReal(i)
    const words = Array.from({ length: servers.realCount(i) }, (_unused, j) => {
      const { weight, forwarding } = reals.settings(first + j)
      return ` ${reals.address(first + j)}:${reals.port(first + j)} ${forwarding} ${weight}`
    })
    const settings = `${scheduler} ${flags} ${timeoutSeconds}`
    return `${servers.protocol(i)} ${servers.address(i)}:${servers.port(i)} ${settings}${words.toSorted().join('')}`
  })
}
