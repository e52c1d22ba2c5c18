// Measures the shipped agent on a cluster of a given size, by the answers that clients get.
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../stage/figures.js'
import { changeMs, changesMs, onStage, type Setting, type Stage } from '../stage/stage.js'

const coldStarts = 5
const changes = 25
const shortRestMs = 3000
const longRestMs = 45_000
const churnSeconds = 15
const churnPeriodMs = 50

/** Makes 20 changes per second without waiting for their effect. */
async function churn(stage: Stage): Promise<Record<string, number>> {
  const lags: Promise<number>[] = []
  const cpuBefore = stage.agent.cpuSeconds()
  const start = performance.now()
  for (let i = 0; i < (churnSeconds * 1000) / churnPeriodMs; i++) {
    await sleep(Math.max(0, start + i * churnPeriodMs - performance.now()))
    lags.push(changeMs(stage, 'replace'))
  }
  const times = await Promise.all(lags)
  const seconds = (performance.now() - start) / 1000
  const cores = (stage.agent.cpuSeconds() - cpuBefore) / seconds
  return { cores, medianLagMs: median(times), maxLagMs: Math.max(...times), changes: times.length }
}

/** Several cold starts, and changes after the last one. */
export async function agentFigures(setting: Setting): Promise<Record<string, unknown>> {
  const coldMs: number[] = []
  const coldCpuSeconds: number[] = []
  const start = ({ agent, coldMs: ms }: Stage): void => {
    coldCpuSeconds.push(agent.cpuSeconds())
    coldMs.push(ms)
  }
  for (let i = 1; i < coldStarts; i++)
    await onStage(setting, async (stage) => {
      start(stage)
      // Let the work that follows the first pass end before the stop.
      await sleep(shortRestMs)
    })
  return await onStage(setting, async (stage) => {
    start(stage)
    await sleep(shortRestMs)
    const replaced = await changesMs(stage, 'replace', changes)
    const added = await changesMs(stage, 'add', changes)
    return {
      coldMs: median(coldMs),
      coldMaxMs: Math.max(...coldMs),
      coldCpuSeconds: median(coldCpuSeconds),
      replace: { medianMs: median(replaced), maxMs: Math.max(...replaced) },
      add: { medianMs: median(added), maxMs: Math.max(...added) },
    }
  })
}

/** Memory at rest, then many changes, then memory again. */
export async function churnFigures(setting: Setting): Promise<Record<string, unknown>> {
  return await onStage(setting, async (stage) => {
    await sleep(shortRestMs)
    const soon = stage.agent.memory()
    await sleep(longRestMs - shortRestMs)
    const late = stage.agent.memory()
    const churned = await churn(stage)
    await sleep(shortRestMs)
    const { restMiB, peakMiB } = stage.agent.memory()
    return {
      ...churned,
      restMiB: { soon: soon.restMiB, late: late.restMiB, afterChurn: restMiB },
      peakMiB: { cold: soon.peakMiB, afterChurn: peakMiB },
    }
  })
}
