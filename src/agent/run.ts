// The life of an agent: start, wait, stop.
import { hostname } from 'node:os'
import { Registry } from 'prom-client'
import type { ConfigFile } from '../cli/index.js'
import { watchConfigFile, type Config } from '../config/index.js'
import type { Kernel } from '../kernel/index.js'
import type { Log } from '../log.js'
import { openMetrics, openProcessMetrics } from '../metrics/index.js'
import { nodeName } from '../node/index.js'
import { stopSignal, type ServiceManager } from '../process/index.js'
import { nodeFileSystem, openSource } from '../source/index.js'
import { Inbox, systemClock } from '../sync/index.js'
import { build, type Agent } from './build.js'

const timers = {
  now: () => systemClock.now(),
  after: (delayMs: number, wake: () => void) => systemClock.schedule(delayMs, wake),
}

export interface RunOptions {
  readonly config: Config
  /** Followed while the agent runs; undefined: there is none. */
  readonly configFile: ConfigFile | undefined
  readonly kernel: Kernel
  readonly log: Log
  readonly manager: ServiceManager
}

/** Brings the world into the kernel until somebody ends it. Resolves with the exit code; rejects with what ended it otherwise. */
export async function run({ config, configFile, kernel, log, manager }: RunOptions): Promise<number> {
  const stopped = stopSignal()
  const following = new AbortController()
  const configChange = watchConfigFile(configFile, { signal: following.signal, after: timers.after })
  configChange.catch(() => undefined)
  const registry = new Registry()
  const metrics = openMetrics(registry)
  openProcessMetrics(registry, config)
  const { source } = openSource(config, {
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
