// The shipped agent with a table of nf_tables of its own, as clients see it.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Namespace } from '../../test/support/namespaces.js'
import { ApiProcess } from '../api/setting.js'
import { changesMs, churn } from '../api/changes.js'
import {
  type ApiStage,
  coldMs,
  type ModeSetting,
  onApiStage,
  startAgent,
  type StartRun,
} from '../api/stage.js'
import type { AgentRun } from '../stage/agent-run.js'
import { median, millisecondsBetween, spread } from '../stage/figures.js'
import { openPlace } from '../stage/place.js'
import { onStage } from '../stage/stage.js'

const generationProgram = fileURLToPath(new URL('./generation.js', import.meta.url))
const starts = 5
const restarts = 5
/** Behind a start, whose remaining work and garbage collection end in it. */
const restMs = 3000
/** Between two tries of the client: far less than what is measured. */
const tickUs = 500
const replacements = 300
const servicesAdded = 50
const churnSeconds = 15

interface Start {
  readonly ms: number
  readonly cpuMs: number
  readonly restMiB: number
}

/** The agent whose last Service answers `ms` after its start. */
async function startOf(agent: AgentRun, ms: number): Promise<Start> {
  const cpuMs = agent.cpuSeconds() * 1000
  await sleep(restMs)
  return { ms, cpuMs, restMiB: agent.memory().restMiB }
}

/** With the log that users have. */
async function onQuietStage<T>(
  { agent, connect, size }: ModeSetting,
  use: (stage: ApiStage<AgentRun>) => Promise<T>,
): Promise<T> {
  const start: StartRun<AgentRun> = (place, api) => startAgent(place, api, { ...agent, verbosity: 0 })
  return await onApiStage({ connect, size, tickUs }, start, use)
}

async function startFrom(source: 'manifests' | 'api', setting: ModeSetting): Promise<Start> {
  const { agent, connect, size } = setting
  if (source === 'api')
    return await onQuietStage(setting, async (stage) => startOf(stage.run, await coldMs(stage, size)))
  const { mode = 'iptables', flavour = 'legacy' } = agent
  return await onStage({ mode, connect, size }, async (stage) => await startOf(stage.agent, stage.coldMs), {
    flavour,
  })
}

/** Cold starts from manifests and from the API server, in turns. */
export async function startFigures(setting: ModeSetting): Promise<Record<string, unknown>> {
  const found: Record<'manifests' | 'api', Start[]> = { manifests: [], api: [] }
  for (let round = 0; round < starts; round++)
    for (const source of ['manifests', 'api'] as const) found[source].push(await startFrom(source, setting))
  return Object.fromEntries(
    Object.entries(found).map(([source, figures]) => {
      const times = figures.map(({ ms }) => ms)
      const cpuMs = median(figures.map((figure) => figure.cpuMs))
      const restMiB = median(figures.map((figure) => figure.restMiB))
      return [source, { ms: median(times), maxMs: Math.max(...times), cpuMs, restMiB }]
    }),
  )
}

/** One change after another, then a storm of changes; memory before and after. */
export async function changeFigures(setting: ModeSetting): Promise<Record<string, unknown>> {
  return await onQuietStage(setting, async (stage) => {
    await coldMs(stage, setting.size)
    await sleep(restMs)
    const { restMiB } = stage.run.memory()
    const { change = [] } = await changesMs(stage, replacements, 'change')
    const { add = [], remove = [] } = await changesMs(stage, servicesAdded, 'add', 'remove')
    const churned = await churn(stage, churnSeconds)
    await sleep(restMs)
    const after = stage.run.memory()
    return {
      change: spread(change),
      add: spread(add),
      remove: spread(remove),
      churn: churned,
      memory: { restMiB, afterChurnMiB: after.restMiB, peakMiB: after.peakMiB },
    }
  })
}

/** The number of the ruleset's state: each transaction of any program adds one. */
export async function generation(place: Namespace): Promise<number> {
  return Number(await place.must(process.execPath, generationProgram))
}

/** Starts of the agent on the rules that the one before has left. */
export async function restartFigures({
  agent: agentMode,
  size,
}: Omit<ModeSetting, 'connect'>): Promise<Record<string, unknown>> {
  const place = await openPlace()
  try {
    const api = await ApiProcess.start(size, place)
    const first = startAgent(place, api, agentMode)
    await first.inForce()
    await sleep(restMs)
    await first.stop()
    const before = await generation(place)
    const times: number[] = []
    for (let i = 0; i < restarts; i++) {
      const agent = startAgent(place, api, agentMode)
      await agent.inForce()
      times.push(millisecondsBetween(agent.startNs, process.hrtime.bigint()))
      await sleep(restMs)
      await agent.stop()
    }
    const transactions = (await generation(place)) - before
    await api.stop()
    return { ms: median(times), maxMs: Math.max(...times), transactions }
  } finally {
    await place.close()
  }
}
