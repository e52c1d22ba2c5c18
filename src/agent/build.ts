// Builds the parts of an agent and connects them.
import { EventEmitter, once } from 'node:events'
import type { Registry } from 'prom-client'
import type { Configuration } from '../cli/index.js'
import { effectiveConfiguration, type ProxyMode } from '../config/index.js'
import type { Kernel } from '../kernel/index.js'
import type { EventRecorder } from '../event.js'
import type { AdjustableLog, StateReporter } from '../log.js'
import {
  openKernelMetrics,
  openLocalhostNodePortMetrics,
  openRelayMetrics,
  processStartMs,
  type Metrics,
} from '../metrics/index.js'
import { configWarnings } from '../node/index.js'
import { endStartOfV8, releaseMemory } from '../process/index.js'
import { openControl, type Shown } from './open-control.js'
import { openStatusPage } from './open-status-page.js'
import { AgentServers, HealthCheckServers } from '../server/index.js'
import { reportFormerMode } from './default-mode.js'
import { leavingGuards } from './modes.js'
import type { OpenedIntake } from './open-intake.js'
import { openMode } from './open-mode.js'
import { openProblems, type OpenModeOptions, retryStart, Synchronizer, type Mode } from '../engine/index.js'
import { countCpus, isSysfsReadOnly, realFiles, setConntrack } from '../host/index.js'
import type { Clock } from '../clock.js'
import { openHousekeeping } from './housekeeping.js'

/** The parts that program the kernel. */
export interface Agent {
  readonly mode: ProxyMode
  readonly synchronizer: Synchronizer
  readonly servers: AgentServers
  /** Resolves when all objects have been in the kernel once. */
  readonly inForce: Promise<unknown>
}

export interface BuildOptions
  extends Pick<Configuration, 'config' | 'flagTexts'>, Pick<OpenedIntake, 'intake' | 'node'> {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: AdjustableLog
  readonly metrics: Metrics
  readonly registry: Registry
  readonly events: EventRecorder
  /** Called with an error other than a refusal of the kernel: the agent must end. */
  readonly onCrash: (error: unknown) => void
  /** Default: servers for the health checks of Services. */
  readonly openHealthChecks?: OpenModeOptions['openHealthChecks']
  /** As `SynchronizerOptions.isUnwatched`. */
  readonly isUnwatched?: boolean
  /** As `FamilyContext.lookClock`. */
  readonly lookClock?: Pick<Clock, 'now'>
}

/** Opens the mode and connects it; nothing runs yet. Throws KernelError or ConfigError if the mode cannot work on this kernel. */
export async function build(options: BuildOptions): Promise<Agent> {
  const { config, kernel, intake, node, clock, log, metrics, registry, events, onCrash } = options
  const milestones = new EventEmitter<{ inForce: [] }>()
  const problems = openProblems({ log, events, count: (count) => metrics.objectsFailed.set(count) })
  const start = { clock, log }
  const mode = await retryStart(async () => await openConfiguredMode(options, problems), start)
  const linkWatch = await retryStart(() => kernel.links.watch(), start)
  const { name, flavour, families } = mode
  if (name === 'userspace') node.noteListeningMode()
  metrics.proxyMode(name, config.mode)
  const synchronizer = new Synchronizer({
    mode,
    intake,
    housekeeping: openHousekeeping(mode, { kernel, log, config, node, savedFiles: realFiles }),
    prepareNode: leavingGuards(mode, { kernel, log }),
    onInForce: () => {
      milestones.emit('inForce')
      const { primaryFamily, facts } = node
      for (const warning of configWarnings({ ...config, mode: name, families, primaryFamily }, facts))
        log.warn(warning)
      endStart({ clock, log })
    },
    links: { watch: () => linkWatch },
    isUnwatched: options.isUnwatched,
    clock,
    metrics,
    onCrash,
  })
  openKernelMetrics(registry, {
    calls: () => kernel.calls,
    packets: async () => await synchronizer.countPackets(),
    clock,
  })
  openRelayMetrics(registry, async () => await mode.countRelay?.())
  if (name === 'nftables' && config.featureGates.KubeProxyNFTablesLocalhostNodePorts)
    openLocalhostNodePortMetrics(registry, () => mode.countLocalhostNodePorts?.() ?? {})
  const servers = openServers(options, { mode: name, flavour, node, synchronizer })
  return { mode: name, synchronizer, servers, inForce: once(milestones, 'inForce') }
}

/** Throws as `openMode` does. */
async function openConfiguredMode(
  { config, kernel, node, clock, lookClock, log, metrics, events, openHealthChecks }: BuildOptions,
  problems: StateReporter,
): Promise<Mode> {
  const mode = await openMode({
    conntrack: prepareConntrack({ config, kernel, log, events }, node.facts.name),
    config,
    kernel,
    node,
    clock,
    ...(lookClock === undefined ? {} : { lookClock }),
    log,
    metrics,
    problems,
    events,
    openHealthChecks:
      openHealthChecks ??
      ((family, isHealthy) =>
        new HealthCheckServers({ family, isHealthy, nodeName: node.facts.name, clock })),
  })
  await reportFormerMode(mode, { config, kernel, log })
  return mode
}

function openServers(options: BuildOptions, shown: Shown): AgentServers {
  const { mode, node, synchronizer } = shown
  const { config, flagTexts, clock, log, metrics, registry, events } = options
  return new AgentServers({
    config: config.servers,
    facts: {
      families: () => synchronizer.health,
      isNodeEligible: () => node.isEligible,
      mode,
      metrics: registry,
      configuration: () => effectiveConfiguration(config, mode),
      flags: () => flagTexts,
      startedMs: processStartMs(clock),
      version: config.version,
    },
    control: openControl(options, shown),
    statusPage: openStatusPage(options, shown),
    counts: metrics,
    nodeName: node.facts.name,
    events,
    clock,
    log,
  })
}

/** Ends V8's settings for the start, and releases the memory of the start. */
function endStart({ clock, log }: Pick<BuildOptions, 'clock' | 'log'>): void {
  endStartOfV8()
  releaseMemory(clock).catch((error: unknown) => log.debug('Memory of the start is kept', { err: error }))
}

/** Applies the connection tracking settings of the configuration. Throws as `setConntrack` does. */
async function prepareConntrack(
  { config, kernel, log, events }: Pick<BuildOptions, 'config' | 'kernel' | 'log' | 'events'>,
  name: string,
): Promise<void> {
  await setConntrack({
    config: config.conntrack,
    cpus: await countCpus(),
    kernel,
    log,
    events,
    nodeName: name,
    isSysfsReadOnly,
  })
}
