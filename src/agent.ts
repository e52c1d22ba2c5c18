// The story: build, wire, start, wait, stop. No logic.
import { EventEmitter, once } from 'node:events'
import { hostname } from 'node:os'
import { Registry } from 'prom-client'
import { parseArguments, writtenFlags, type ConfigFile } from './cli/index.js'
import {
  effectiveConfiguration,
  formatConfig,
  readConfigFile,
  watchConfigFile,
  writeConfigFile,
  type Config,
  type ProxyMode,
} from './config/index.js'
import { countCpus, openKernel, type Kernel } from './kernel/index.js'
import { openLog, openStandardOutput, StateReporter, type Log } from './log.js'
import { openMetrics, type Metrics } from './metrics.js'
import { configWarnings, nodeName, NodeTracker } from './node/index.js'
import { openProcessMetrics, processStartMs } from './process-metrics.js'
import { releaseMemory } from './release-memory.js'
import { AgentServers, HealthCheckServers } from './server/index.js'
import { ServiceManager } from './service-manager.js'
import { followLogSignals, stopSignal } from './signals.js'
import { nodeFileSystem, openSource } from './source/index.js'
import {
  adviceOn,
  cleanUpAll,
  Inbox,
  openMode,
  setConntrack,
  Synchronizer,
  systemClock,
  type ModeOptions,
} from './sync/index.js'
import { endStartOfV8, prepareV8 } from './v8-options.js'

const onlineCpus = '/sys/devices/system/cpu/online'

/** What brings the world into the kernel. */
interface Agent {
  readonly mode: ProxyMode
  readonly synchronizer: Synchronizer
  readonly servers: AgentServers
  /** Resolves when the whole world was in the kernel once. */
  readonly inForce: Promise<unknown>
  /** Resolves with the error that nobody expected. */
  readonly crash: Promise<readonly unknown[]>
}

interface BuildOptions {
  readonly config: Config
  readonly kernel: Kernel
  readonly log: Log
  readonly metrics: Metrics
  readonly registry: Registry
  readonly manager: ServiceManager
}

/** Throws KernelError or ConfigError where the mode cannot work on this kernel. */
async function build({ config, kernel, log, metrics, registry, manager }: BuildOptions): Promise<Agent> {
  const news = new EventEmitter<{ crash: [unknown]; inForce: [] }>()
  const node = new NodeTracker(nodeName(config, hostname()), config.bindAddress)
  const problems = new StateReporter({
    log,
    level: 'error',
    trouble: 'not programmed',
    recovery: 'programmed again',
    count: (count) => metrics.objectsFailed.set(count),
  })
  const openHealthChecks: ModeOptions['openHealthChecks'] = (family, isHealthy) =>
    new HealthCheckServers({ family, isHealthy, nodeName: node.facts.name })
  const cpus = await countCpus(onlineCpus)
  const mode = await openMode({
    conntrack: setConntrack({ config: config.conntrack, cpus, kernel, log }),
    config,
    kernel,
    node,
    clock: systemClock,
    log,
    metrics,
    problems,
    openHealthChecks,
  })
  const synchronizer = new Synchronizer({
    mode,
    onInForce: () => {
      manager.ready()
      news.emit('inForce')
      for (const warning of configWarnings({ ...config, mode: mode.name }, node.facts)) log.warn(warning)
      endStartOfV8()
      releaseMemory().catch((error: unknown) => log.debug('Memory of the start is kept', { err: error }))
    },
    links: kernel.links,
    node,
    clock: systemClock,
    metrics,
    onCrash: (error) => news.emit('crash', error),
  })
  const servers = new AgentServers({
    config: config.servers,
    facts: {
      families: () => synchronizer.health,
      isNodeEligible: () => node.isEligible,
      mode: mode.name,
      metrics: registry,
      configuration: () => effectiveConfiguration(config, mode.name),
      flags: () => writtenFlags(process.argv.slice(2)),
      startedMs: processStartMs(),
      version: config.version,
    },
    counts: metrics,
    clock: systemClock,
    log,
  })
  const [crash, inForce] = [once(news, 'crash'), once(news, 'inForce')]
  return { mode: mode.name, synchronizer, servers, inForce, crash }
}

const timers = {
  now: () => systemClock.now(),
  after: (delayMs: number, wake: () => void) => systemClock.schedule(delayMs, wake),
}

interface RunOptions {
  readonly config: Config
  /** Followed while the agent runs; undefined: there is none. */
  readonly configFile: ConfigFile | undefined
  readonly kernel: Kernel
  readonly log: Log
  readonly manager: ServiceManager
}

/** Resolves with the exit code. */
async function run({ config, configFile, kernel, log, manager }: RunOptions): Promise<number> {
  const stopped = stopSignal()
  const following = new AbortController()
  const configChange = watchConfigFile(configFile, { signal: following.signal, after: timers.after })
  configChange.catch(() => undefined)
  const registry = new Registry()
  const metrics = openMetrics(registry)
  openProcessMetrics(registry, config)
  const source = openSource(config, {
    fileSystem: nodeFileSystem,
    timers,
    log,
    metrics,
    nodeName: nodeName(config, hostname()),
    environment: process.env,
  })
  const inbox = new Inbox(systemClock)
  // The kernel may be loading its modules meanwhile; what it lacks is told before what the world lacks.
  const reading = failureOf(source.start((events) => inbox.deliver(events)))
  reading.catch(() => undefined)
  let agent: Agent | undefined
  let end: NodeJS.Signals | readonly unknown[]
  try {
    const built = await Promise.race([build({ config, kernel, log, metrics, registry, manager }), stopped])
    if (typeof built === 'string') end = built
    else {
      agent = built
      log.info('viaduct starts', { version: config.version, mode: built.mode })
      built.synchronizer.start()
      const handing = failureOf(inbox.open((events) => built.synchronizer.deliver(events)))
      const serving = failureOf(built.servers.start(built.inForce))
      end = await Promise.race([stopped, built.crash, reading, handing, configChange, serving])
    }
  } finally {
    manager.stopping()
    following.abort()
    kernel.hurry()
    await agent?.servers.stop()
    await source.stop()
    await agent?.synchronizer.stop()
  }
  if (typeof end !== 'string') throw end[0]
  log.info('viaduct stops; the kernel stays as it is', { signal: end })
  return 0
}

/** Rejects when `start` does, and never resolves: a start that succeeds ends nothing. */
async function failureOf(start: Promise<void>): Promise<never> {
  await start
  return await new Promise<never>(() => undefined)
}

async function runCleanUp(config: Config, kernel: Kernel): Promise<number> {
  const { text, isComplete } = await cleanUpAll(kernel, config.ipvs.excludeCIDRs)
  process.stdout.write(`viaduct: ${text}\n`)
  return isComplete ? 0 : 1
}

/** Makes the kernel ready for an agent that may do less. */
async function runInit(options: Omit<BuildOptions, 'metrics' | 'registry'>): Promise<number> {
  const registry = new Registry()
  await build({ ...options, metrics: openMetrics(registry), registry })
  options.log.info('System initialized and --init-only specified')
  return 0
}

function runWrite(config: Config, path: string): number {
  try {
    writeConfigFile(path, formatConfig(config))
    return 0
  } catch (error) {
    process.stderr.write(`viaduct: ${adviceOn(error)}\n`)
    return 1
  }
}

async function main(): Promise<number> {
  prepareV8()
  const invocation = parseArguments(process.argv.slice(2), readConfigFile)
  if ('exitCode' in invocation) {
    const output = invocation.exitCode === 0 ? process.stdout : process.stderr
    output.write(invocation.text)
    return invocation.exitCode
  }
  const { config, configFile } = invocation
  if (config.writeConfigTo !== undefined) return runWrite(config, config.writeConfigTo)
  const destination = openStandardOutput()
  const log = openLog({
    format: config.loggingFormat,
    verbosity: config.verbosity,
    destination,
    now: Date.now,
  })
  followLogSignals(log, config.verbosity)
  const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'] })
  const manager = new ServiceManager({
    environment: process.env,
    pid: process.pid,
    notify: (socket, state) => kernel.notifyServiceManager(socket, state),
    every: (periodMs, wake) => void setInterval(wake, periodMs).unref(),
    log,
  })
  try {
    if (config.cleanup) return await runCleanUp(config, kernel)
    if (config.initOnly) return await runInit({ config, kernel, log, manager })
    return await run({ config, configFile, kernel, log, manager })
  } catch (error) {
    process.stderr.write(`viaduct: ${adviceOn(error)}\n`)
    return 1
  } finally {
    await kernel.close()
  }
}

// NB: exit, not exitCode: nothing that still holds the loop may delay the end beyond a second.
void main().then((exitCode) => process.exit(exitCode))
