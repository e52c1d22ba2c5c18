// The life of an agent: start, wait, stop.
import { hostname } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { Registry } from 'prom-client'
import type { ConfigFile, Configuration } from '../cli/index.js'
import { watchConfigFile, type Config } from '../config/index.js'
import { type EventReport, nodeReference } from '../event.js'
import { EventSender } from '../events/index.js'
import { BugError } from '../errors.js'
import type { Kernel } from '../kernel/index.js'
import type { AdjustableLog, Log } from '../log.js'
import { openMetrics, openProcessMetrics } from '../metrics/index.js'
import { nodeName, NodeWatch } from '../node/index.js'
import {
  endInOrder,
  setOomScore,
  stopSignal,
  uncaughtError,
  watchStrain,
  type ServiceManager,
  FirstEnd,
} from '../process/index.js'
import type { ObjectEvent } from '../source/index.js'
import { Inbox } from '../engine/index.js'
import { build, type Agent } from './build.js'
import { openConfiguredSource, timers } from './open-source.js'
import { systemClock } from '../clock.js'

const every = (periodMs: number, wake: () => void): void => void setInterval(wake, periodMs).unref()

/** How long events may take that are not sent yet: at an end that was asked for, and at one that they may explain. */
const [farewellMs, lastWordsMs] = [200, 1000]

export interface RunOptions extends Pick<Configuration, 'config' | 'flagTexts'> {
  /** Followed while the agent runs; undefined: there is none. */
  readonly configFile: ConfigFile | undefined
  readonly kernel: Kernel
  readonly log: AdjustableLog
  readonly manager: ServiceManager
}

/** Brings the world into the kernel until somebody ends it. Resolves with the exit code; rejects with what ended it otherwise. */
export async function run(options: RunOptions): Promise<number> {
  const { config, configFile, log } = options
  const uncaught = uncaughtError({
    log,
    process,
    after: (delayMs, wake) => void setTimeout(wake, delayMs).unref(),
  })
  const end = new FirstEnd()
  end.onSignal(stopSignal())
  end.onFailureOf(uncaught)
  guardProcess(config, log)
  const following = new AbortController()
  end.onFailureOf(watchConfigFile(configFile, { signal: following.signal, after: timers.after }))
  try {
    const signal = await live(options, end)
    await Promise.race([uncaught, Promise.resolve()]) // throws what came during the end
    log.info('viaduct stops; the kernel stays as it is', { signal })
    return 0
  } finally {
    following.abort()
  }
}

/** Resolves with the signal that ended it. */
async function live(options: RunOptions, end: FirstEnd): Promise<NodeJS.Signals> {
  const { config, kernel, log, manager } = options
  const registry = new Registry()
  const metrics = openMetrics(registry)
  openProcessMetrics(registry, config, every)
  const name = nodeName(config, hostname())
  // First of all: nothing on the node changes before the inputs hold.
  const opened = await end.before(
    openConfiguredSource({ config, nodeName: name, log, metrics, onCrash: end.fail }),
  )
  if (typeof opened === 'string') return opened
  const { source, client } = opened
  const sender = new EventSender({
    client,
    nodeName: name,
    limit: config.client.clientConnection,
    timers,
    unixMs: Date.now,
    random: Math.random,
    log,
    metrics,
  })
  const inbox = new Inbox(systemClock)
  const deliver = (events: readonly ObjectEvent[]): void => inbox.deliver(events)
  const nodeWatch = new NodeWatch({ name, config, deliver, after: timers.after, log })
  // The kernel may be loading its modules meanwhile; what it lacks is reported before what the world lacks.
  const reading = source.start((events) => nodeWatch.see(events))
  reading.catch(() => undefined)
  let agent: Agent | undefined
  let signal: NodeJS.Signals | undefined
  let isWell = false
  try {
    const built = await end.before(
      build({ ...options, metrics, registry, events: sender, onCrash: end.fail }),
    )
    if (typeof built === 'string') signal = built
    else {
      agent = built
      log.info('viaduct starts', { version: config.version, mode: built.mode })
      built.synchronizer.start()
      sender.record(startOf(name))
      nodeWatch.programs(built.families)
      end.onFailureOf(reading)
      end.onFailureOf(nodeWatch.end)
      end.onFailureOf(inbox.open((events) => built.synchronizer.deliver(events)))
      end.onFailureOf(built.servers.start(built.inForce))
      signal = await end.happened
    }
  } finally {
    manager.stopping()
    nodeWatch.close()
    kernel.hurry()
    const told = sender.stop(signal === undefined ? lastWordsMs : farewellMs)
    const parts = [
      { part: 'servers', stop: () => agent?.servers.stop() },
      { part: 'source', stop: () => source.stop() },
      { part: 'sync', stop: () => agent?.synchronizer.stop() },
      { part: 'events', stop: () => told },
    ]
    isWell = await endInOrder(parts, log)
  }
  if (!isWell) throw new BugError('not all of the agent ended in order: the log says which part')
  return signal
}

/** kube-proxy's (spec 1.10). */
function startOf(node: string): EventReport {
  const regarding = nodeReference(node)
  return { type: 'Normal', reason: 'Starting', action: 'StartKubeProxy', regarding, note: '' }
}

function guardProcess({ oomScoreAdj }: Config, log: Log): void {
  setOomScore({ score: oomScoreAdj, after: timers.after, log })
  watchStrain({
    every,
    now: timers.now,
    heap: () => {
      const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
      return { used, limit }
    },
    log,
  })
}
