// What the shipped agent needs for a cluster of a size, seen by clients.
import { readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { array, number, object, parse } from 'valibot'
import type { Namespace } from '../../test/support/namespaces.js'
import { AgentRun, type AgentOptions } from './agent-run.js'
import { median, millisecondsBetween } from './figures.js'
import { nowMs, type Gap } from './loop-watch.js'
import { Manifests, type Size } from './manifests.js'
import { openPlace, Prober, serve } from './place.js'

const coldStarts = 3
const changes = 25
/** Between two changes: longer than a pass and the rest after it. */
const betweenChangesMs = 600
const churnSeconds = 15
const churnPeriodMs = 50
const tickUs = 1000
const loopWatch = new URL('./loop-watch.js', import.meta.url).href

/** A namespace with a server, a client and an agent whose rules are in force. */
interface Stage {
  readonly place: Namespace
  readonly manifests: Manifests
  readonly agent: AgentRun
  readonly prober: Prober
  /** Milliseconds from the agent's start until the last service answered. */
  readonly coldMs: number
}

/** Runs `use` on a fresh stage. */
async function onStage<T>(
  connect: string,
  size: Size,
  use: (stage: Stage) => Promise<T>,
  options: AgentOptions = {},
): Promise<T> {
  const manifests = new Manifests(size)
  const place = await openPlace('bench')
  try {
    await serve(place, connect)
    const last = size.services - 1
    const prober = new Prober(place, connect, { tickUs, burst: size.reals * 2 })
    const waiting = prober.answered({
      address: manifests.lastVip,
      port: 80,
      expected: manifests.firstRealOf(last),
    })
    const agent = new AgentRun(place, manifests.folder, options)
    const coldMs = millisecondsBetween(agent.startNs, await waiting)
    const result = await use({ place, manifests, agent, prober, coldMs })
    await agent.stop()
    return result
  } finally {
    await place.close()
    manifests.remove()
  }
}

/** Milliseconds from the rename of a manifest to the first new connection that the new endpoint answers. */
async function changeMs({ manifests, prober }: Stage): Promise<number> {
  const startNs = process.hrtime.bigint()
  const { vip, endpoint } = manifests.change()
  return millisecondsBetween(startNs, await prober.answered({ address: vip, port: 80, expected: endpoint }))
}

async function changesMs(stage: Stage): Promise<readonly number[]> {
  const times: number[] = []
  for (let i = 0; i < changes; i++) {
    times.push(await changeMs(stage))
    await sleep(betweenChangesMs)
  }
  return times
}

/** Changes at a steady rate, whatever becomes of them. */
async function churn(stage: Stage): Promise<Record<string, number>> {
  const lags: Promise<number>[] = []
  const cpuBefore = stage.agent.cpuSeconds()
  const start = performance.now()
  for (let i = 0; i < (churnSeconds * 1000) / churnPeriodMs; i++) {
    await sleep(Math.max(0, start + i * churnPeriodMs - performance.now()))
    lags.push(changeMs(stage))
  }
  const times = await Promise.all(lags)
  const seconds = (performance.now() - start) / 1000
  const cores = (stage.agent.cpuSeconds() - cpuBefore) / seconds
  return { cores, medianLagMs: median(times), maxLagMs: Math.max(...times), changes: times.length }
}

export interface AgentFigures {
  readonly coldMs: readonly number[]
  readonly changeMs: readonly number[]
  readonly restMiB: number
  readonly peakMiB: number
  readonly churn: Record<string, number>
}

/** Cold start again and again; on the last one everything else. */
export async function agentFigures(connect: string, size: Size): Promise<AgentFigures> {
  const coldMs: number[] = []
  for (let i = 1; i < coldStarts; i++)
    coldMs.push(await onStage(connect, size, async (stage) => await Promise.resolve(stage.coldMs)))
  return await onStage(connect, size, async (stage) => {
    coldMs.push(stage.coldMs)
    await sleep(3000)
    const { restMiB } = stage.agent.memory()
    const times = await changesMs(stage)
    const churned = await churn(stage)
    return { coldMs, changeMs: times, restMiB, peakMiB: stage.agent.memory().peakMiB, churn: churned }
  })
}

export interface LoopFigures {
  /** From the first tick of the loop until the last service answered. */
  readonly coldGapMs: number
  readonly changeGapMs: number
  /** Two seconds in which nothing happens but the cheap looks. */
  readonly idleGapMs: number
  /** Log lines of the passes. */
  readonly passes: readonly string[]
}

/** When the agent's event loop is not free. Not timed otherwise: the watch itself costs. */
export async function loopFigures(connect: string, size: Size): Promise<LoopFigures> {
  const output = join(tmpdir(), `viaduct-bench-${process.pid}-loop.json`)
  process.env['LOOP_WATCH'] = output
  const options: AgentOptions = { node: ['--import', loopWatch], flags: ['-v', '2'] }
  const marks = await onStage(
    connect,
    size,
    async (stage) => {
      await sleep(1000)
      const changeFrom = nowMs()
      for (let i = 0; i < 5; i++) {
        await changeMs(stage)
        await sleep(betweenChangesMs)
      }
      const idleFrom = nowMs()
      await sleep(2000)
      return { changeFrom, idleFrom, idleTo: nowMs(), log: stage.agent.log }
    },
    options,
  )
  delete process.env['LOOP_WATCH']
  const gaps = parse(
    array(object({ endMs: number(), ms: number() })),
    JSON.parse(readFileSync(output, 'utf8')),
  )
  rmSync(output)
  const { changeFrom, idleFrom, idleTo, log } = marks
  return {
    // The first gap is the loading of the program itself.
    coldGapMs: longest(gaps.slice(1), 0, changeFrom),
    changeGapMs: longest(gaps, changeFrom, idleFrom),
    idleGapMs: longest(gaps, idleFrom, idleTo),
    passes: log.filter((line) => line.includes('Sync done')),
  }
}

function longest(gaps: readonly Gap[], fromMs: number, toMs: number): number {
  return Math.max(0, ...gaps.filter(({ endMs }) => endMs >= fromMs && endMs < toMs).map(({ ms }) => ms))
}

/** Programs that the agent executes from its start over a few changes: every thread and child is traced. */
export async function executedPrograms(connect: string, size: Size): Promise<number> {
  const trace = join(tmpdir(), `viaduct-bench-${process.pid}-trace`)
  const under = ['strace', '-f', '-qq', '-e', 'trace=execve,execveat', '-e', 'signal=none', '-o', trace]
  const count = await onStage(
    connect,
    size,
    async (stage) => {
      for (let i = 0; i < 3; i++) await changeMs(stage)
      // strace's own first line is the agent itself.
      return readFileSync(trace, 'utf8').trim().split('\n').length - 1
    },
    { under },
  )
  rmSync(trace)
  return count
}
