// What an agent consists of, wired.
import { EventEmitter, once } from 'node:events'
import { hostname } from 'node:os'
import type { Registry } from 'prom-client'
import type { IpFamily } from '../address.js'
import type { Configuration } from '../cli/index.js'
import { effectiveConfiguration, type ProxyMode } from '../config/index.js'
import { countCpus, isSysfsReadOnly, type Kernel } from '../kernel/index.js'
import type { EventRecorder } from '../event.js'
import { StateReporter, type AdjustableLog } from '../log.js'
import { openKernelMetrics, processStartMs, type Metrics } from '../metrics/index.js'
import { configWarnings, nodeName, NodeTracker } from '../node/index.js'
import { endStartOfV8, releaseMemory, type ServiceManager } from '../process/index.js'
import { AgentServers, HealthCheckServers } from '../server/index.js'
import { openMode } from './open-mode.js'
import { retryStart, Synchronizer, type Mode, type ModeOptions } from '../engine/index.js'
import { setConntrack } from '../host/index.js'
import { systemClock } from '../clock.js'
import { leavingOthers } from './modes.js'

const onlineCpus = '/sys/devices/system/cpu/online'
const mountsFile = '/proc/self/mounts'

/** What brings the world into the kernel. */
export interface Agent {
  readonly mode: ProxyMode
  /** Those that are programmed. */
  readonly families: readonly IpFamily[]
  readonly synchronizer: Synchronizer
  readonly servers: AgentServers
  /** Resolves when the whole world was in the kernel once. */
  readonly inForce: Promise<unknown>
}

export interface BuildOptions extends Pick<Configuration, 'config' | 'flagTexts'> {
  readonly kernel: Kernel
  readonly log: AdjustableLog
  readonly metrics: Metrics
  readonly registry: Registry
  readonly manager: ServiceManager
  readonly events: EventRecorder
  /** Called with an error that is no refusal of the kernel: the agent has to end. */
  readonly onCrash: (error: unknown) => void
}

/** Opens the mode and wires it; nothing runs yet. Throws KernelError or ConfigError where the mode cannot work on this kernel. */
export async function build(options: BuildOptions): Promise<Agent> {
  const { config, kernel, log, metrics, registry, manager, events, onCrash } = options
  const news = new EventEmitter<{ inForce: [] }>()
  const node = new NodeTracker(nodeName(config, hostname()), config.bindAddress)
  const problems = new StateReporter({
    log,
    level: 'error',
    trouble: 'not programmed',
    recovery: 'programmed again',
    events,
    count: (count) => metrics.objectsFailed.set(count),
  })
  const openHealthChecks: ModeOptions['openHealthChecks'] = (family, isHealthy) =>
    new HealthCheckServers({ family, isHealthy, nodeName: node.facts.name, clock: systemClock })
  const start = { clock: systemClock, log }
  const open = async (): Promise<Mode> =>
    await openMode({
      conntrack: prepareConntrack({ config, kernel, log, events }, node.facts.name),
      config,
      kernel,
      node,
      clock: systemClock,
      log,
      metrics,
      problems,
      events,
      openHealthChecks,
    })
  const mode = await retryStart(open, start)
  const linkWatch = await retryStart(() => kernel.links.watch(), start)
  const { name, families } = mode
  metrics.proxyMode(name, config.mode)
  const synchronizer = new Synchronizer({
    mode,
    leaveOthers: leavingOthers(name, { kernel, log, excludeCidrs: config.ipvs.excludeCIDRs }),
    onInForce: () => {
      manager.ready()
      news.emit('inForce')
      for (const warning of configWarnings({ ...config, mode: name, families }, node.facts)) log.warn(warning)
      endStart(log)
    },
    links: { watch: () => linkWatch },
    node,
    clock: systemClock,
    metrics,
    onCrash,
  })
  openKernelMetrics(registry, {
    calls: () => kernel.calls,
    packets: async () => await synchronizer.countPackets(),
    after: (delayMs, wake) => systemClock.schedule(delayMs, wake),
  })
  const servers = new AgentServers({
    config: config.servers,
    facts: {
      families: () => synchronizer.health,
      isNodeEligible: () => node.isEligible,
      mode: name,
      metrics: registry,
      configuration: () => effectiveConfiguration(config, name),
      flags: () => options.flagTexts,
      startedMs: processStartMs(),
      version: config.version,
    },
    counts: metrics,
    nodeName: node.facts.name,
    events,
    clock: systemClock,
    log,
  })
  return { mode: name, families, synchronizer, servers, inForce: once(news, 'inForce') }
}

/** Ends what V8 was set to for the start, and gives the start's memory back. */
function endStart(log: AdjustableLog): void {
  endStartOfV8()
  releaseMemory().catch((error: unknown) => log.debug('Memory of the start is kept', { err: error }))
}

/** Sets what the configuration says of connection tracking. Throws as `setConntrack` does. */
async function prepareConntrack(
  { config, kernel, log, events }: Pick<BuildOptions, 'config' | 'kernel' | 'log' | 'events'>,
  name: string,
): Promise<void> {
  await setConntrack({
    config: config.conntrack,
    cpus: await countCpus(onlineCpus),
    kernel,
    log,
    events,
    nodeName: name,
    isSysfsReadOnly: async () => await isSysfsReadOnly(mountsFile),
  })
}
