// The life of an agent: start, wait, stop.
import { hostname } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { Registry } from 'prom-client'
import type { ConfigFile, Configuration } from '../cli/index.js'
import { watchConfigFile } from '../config/index.js'
import { type EventReport, nodeReference } from '../event.js'
import { EventSender } from '../events/index.js'
import { BugError } from '../errors.js'
import type { Kernel } from '../kernel/index.js'
import type { AdjustableLog } from '../log.js'
import { LoopDelays, openMetrics, openProcessMetrics } from '../metrics/index.js'
import { nodeName } from '../node/index.js'
import {
  endInOrder,
  setOomScore,
  stopSignal,
  uncaughtError,
  watchResourcePressure,
  type ServiceManager,
  FirstEnd,
} from '../process/index.js'
import { build, type Agent } from './build.js'
import { reportDefaultMode } from './default-mode.js'
import { followForMode } from './follow-for-mode.js'
import { openIntake } from './open-intake.js'
import { openConfiguredSource } from './open-source.js'
import type { Clock } from '../clock.js'

/** Longest waits for pending Events at the end: after a signal, and after an error, which an Event may explain. */
const [farewellMs, lastWordsMs] = [200, 1000]

export interface RunOptions extends Pick<Configuration, 'config' | 'flagTexts'> {
  /** The file to watch for changes; undefined: none. */
  readonly configFile: ConfigFile | undefined
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: AdjustableLog
  readonly manager: ServiceManager
}

/** Programs the kernel until a signal. Resolves with the exit code; rejects with the error that ends the agent. */
export async function run(options: RunOptions): Promise<number> {
  const { configFile, clock, log } = options
  const uncaught = uncaughtError({ log, process, clock })
  const end = new FirstEnd()
  end.onSignal(stopSignal())
  end.onFailureOf(uncaught)
  const loopDelays = new LoopDelays()
  guardProcess(options, loopDelays)
  const following = new AbortController()
  end.onFailureOf(watchConfigFile(configFile, { signal: following.signal, clock }))
  try {
    const signal = await live(options, { end, loopDelays })
    await Promise.race([uncaught, Promise.resolve()]) // throws an error that occurred during the stop
    log.info('viaduct stops; the kernel keeps its state', { signal })
    return 0
  } finally {
    following.abort()
  }
}

/** Resolves with the signal that ends the agent. */
async function live(
  options: RunOptions,
  { end, loopDelays }: { readonly end: FirstEnd; readonly loopDelays: LoopDelays },
): Promise<NodeJS.Signals> {
  const { config, kernel, clock, log, manager } = options
  const registry = new Registry()
  const metrics = openMetrics(registry)
  openProcessMetrics(registry, { build: config, clock, log, loopDelays })
  const name = nodeName(config, hostname())
  // Before any change on the node: the inputs must be valid.
  const opened = await end.before(
    openConfiguredSource({ config, nodeName: name, clock, log, metrics, onCrash: end.fail }),
  )
  if (typeof opened === 'string') return opened
  const { source, client } = opened
  const sender = new EventSender({
    client,
    nodeName: name,
    limit: config.client.clientConnection,
    clock,
    random: Math.random,
    log,
    metrics,
  })
  const { intake, node, nodeWatch } = openIntake({ config, kernel, clock, log, metrics })
  // The kernel may load its modules meanwhile.
  const reading = source.start((events) => intake.deliver(events))
  reading.catch(() => undefined)
  let agent: Agent | undefined
  let signal: NodeJS.Signals | undefined
  let isWell = false
  try {
    const built = await end.before(
      build({ ...options, intake, node, metrics, registry, events: sender, onCrash: end.fail }),
    )
    if (typeof built === 'string') signal = built
    else {
      agent = built
      log.info('viaduct starts', { version: config.version, commit: config.commit, mode: built.mode })
      built.synchronizer.start()
      followForMode(source, built.mode)
      sender.record(startOf(name))
      reportDefaultMode(config, { node: name, log, events: sender })
      end.onFailureOf(reading)
      end.onFailureOf(nodeWatch.end)
      end.onFailureOf(startServers(built, manager))
      signal = await end.happened
    }
  } finally {
    manager.stopping()
    nodeWatch.close()
    kernel.hurry()
    const sent = sender.stop(signal === undefined ? lastWordsMs : farewellMs)
    const parts = [
      { part: 'servers', stop: () => agent?.servers.stop() },
      { part: 'source', stop: () => source.stop() },
      { part: 'sync', stop: () => agent?.synchronizer.stop() },
      { part: 'events', stop: () => sent },
    ]
    isWell = await endInOrder(parts, log)
  }
  if (!isWell) throw new BugError('not all of the agent ended in order: the log says which part')
  return signal
}

/** Reports READY when everything is in the kernel and each server has tried to listen: commands then reach the agent. */
async function startServers({ servers, inForce }: Agent, manager: ServiceManager): Promise<void> {
  await servers.start(inForce)
  await inForce
  manager.ready()
}

/** As kube-proxy's Event. */
function startOf(node: string): EventReport {
  const regarding = nodeReference(node)
  return { type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', regarding, note: '' }
}

function guardProcess({ config, clock, log }: RunOptions, loopDelays: LoopDelays): void {
  setOomScore({ score: config.oomScoreAdj, clock, log })
  watchResourcePressure({
    clock,
    heap: () => {
      const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
      return { used, limit }
    },
    log,
    looked: (delayMs) => loopDelays.note(delayMs),
  })
}
