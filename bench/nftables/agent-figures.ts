// The shipped agent in nftables mode, as clients see it.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Namespace } from '../../test/support/namespaces.js'
import type { Size } from '../stage/manifests.js'
import { ApiProcess } from '../api/setting.js'
import { type ApiStage, changeMs, coldMs, onApiStage, startAgent, type StartRun } from '../api/stage.js'
import type { AgentRun } from '../stage/agent-run.js'
import { median, millisecondsBetween, spread } from '../stage/figures.js'
import { openPlace } from '../stage/place.js'
import { onStage } from '../stage/stage.js'

const generationProgram = fileURLToPath(new URL('./generation.js', import.meta.url))
const mode = 'nftables'
const starts = 5
const restarts = 5
/** Behind a start, whose remaining work and garbage collection end in it. */
const restMs = 3000
/** Between two tries of the client: far less than what is measured. */
const tickUs = 500
const replacements = 300
const servicesAdded = 50
const churnSeconds = 15
const churnPeriodMs = 50

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

const startInMode: StartRun<AgentRun> = (place, api) => startAgent(place, api, mode)
/** With the log that users have. */
const startQuietly: StartRun<AgentRun> = (place, api) => startAgent(place, api, mode, 0)

async function startFrom(source: 'manifests' | 'api', connect: string, size: Size): Promise<Start> {
  return source === 'manifests'
    ? await onStage({ mode, connect, size }, async (stage) => await startOf(stage.agent, stage.coldMs))
    : await onApiStage({ connect, size, tickUs }, startQuietly, async (stage) =>
        startOf(stage.run, await coldMs(stage, size)),
      )
}

/** Cold starts from manifests and from the API server, in turns. */
export async function startFigures(connect: string, size: Size): Promise<Record<string, unknown>> {
  const found: Record<'manifests' | 'api', Start[]> = { manifests: [], api: [] }
  for (let round = 0; round < starts; round++)
    for (const source of ['manifests', 'api'] as const)
      found[source].push(await startFrom(source, connect, size))
  return Object.fromEntries(
    Object.entries(found).map(([source, figures]) => {
      const times = figures.map(({ ms }) => ms)
      const cpuMs = median(figures.map((figure) => figure.cpuMs))
      const restMiB = median(figures.map((figure) => figure.restMiB))
      return [source, { ms: median(times), maxMs: Math.max(...times), cpuMs, restMiB }]
    }),
  )
}

/** 20 changes per second, without waiting for their effect. */
async function churn(stage: ApiStage<AgentRun>): Promise<Record<string, number>> {
  const lags: Promise<number>[] = []
  const cpuBefore = stage.run.cpuSeconds()
  const start = performance.now()
  for (let i = 0; i < (churnSeconds * 1000) / churnPeriodMs; i++) {
    await sleep(Math.max(0, start + i * churnPeriodMs - performance.now()))
    lags.push(changeMs(stage, 'change'))
  }
  const times = await Promise.all(lags)
  const seconds = (performance.now() - start) / 1000
  return { cores: (stage.run.cpuSeconds() - cpuBefore) / seconds, ...spread(times) }
}

/** Changes one by one, at a random moment after the one before. */
async function changesMs(
  stage: ApiStage<AgentRun>,
  count: number,
  ...kinds: readonly ('change' | 'add' | 'remove')[]
): Promise<Readonly<Record<string, readonly number[]>>> {
  const times = new Map<string, number[]>(kinds.map((kind) => [kind, []]))
  for (let i = 0; i < count; i++)
    for (const kind of kinds) {
      times.get(kind)?.push(await changeMs(stage, kind))
      await sleep(50 + 50 * Math.random())
    }
  return Object.fromEntries(times)
}

/** One change after another, then a storm of changes; memory before and after. */
export async function changeFigures(connect: string, size: Size): Promise<Record<string, unknown>> {
  return await onApiStage({ connect, size, tickUs }, startQuietly, async (stage) => {
    await coldMs(stage, size)
    await sleep(restMs)
    const { restMiB } = stage.run.memory()
    const { change = [] } = await changesMs(stage, replacements, 'change')
    const { add = [], remove = [] } = await changesMs(stage, servicesAdded, 'add', 'remove')
    const churned = await churn(stage)
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

async function generation(place: Namespace): Promise<number> {
  return Number(await place.must(process.execPath, generationProgram))
}

/** Starts of the agent on the rules that the one before has left. */
export async function restartFigures(size: Size): Promise<Record<string, unknown>> {
  const place = await openPlace()
  try {
    const api = await ApiProcess.start(size, place)
    const first = startInMode(place, api)
    await first.inForce()
    await sleep(restMs)
    await first.stop()
    const before = await generation(place)
    const times: number[] = []
    for (let i = 0; i < restarts; i++) {
      const agent = startInMode(place, api)
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

/** A cluster far beyond others: how long its start takes, and what it holds. One start. */
export async function hugeFigures(
  connect: string,
  size: Size,
): Promise<Start & { readonly peakMiB: number }> {
  return await onApiStage({ connect, size, tickUs }, startInMode, async (stage) => {
    const { run } = stage
    await run.inForce()
    const ms = millisecondsBetween(run.startNs, process.hrtime.bigint())
    return { ...(await startOf(run, ms)), peakMiB: run.memory().peakMiB }
  })
}
