// Changes from the API server, as clients see them.
import { setTimeout as sleep } from 'node:timers/promises'
import { spread, type Spread } from '../stage/figures.js'
import { type ApiStage, changeMs, type Run } from './stage.js'

const churnPeriodMs = 50
/** Longer than the agent leaves between two transactions in the flavour nft. */
const pauseMs = 120

/** 20 changes per second, without waiting for their effect. */
export async function churn(
  stage: ApiStage<Run>,
  seconds: number,
): Promise<Spread & { readonly cores: number }> {
  const lags: Promise<number>[] = []
  const cpuBefore = stage.run.cpuSeconds()
  const start = performance.now()
  for (let i = 0; i < (seconds * 1000) / churnPeriodMs; i++) {
    await sleep(Math.max(0, start + i * churnPeriodMs - performance.now()))
    lags.push(changeMs(stage, 'change'))
  }
  const times = await Promise.all(lags)
  const wallSeconds = (performance.now() - start) / 1000
  return { cores: (stage.run.cpuSeconds() - cpuBefore) / wallSeconds, ...spread(times) }
}

/** Changes one by one, at a random moment after the one before. */
export async function changesMs(
  stage: ApiStage<Run>,
  count: number,
  ...kinds: readonly ('change' | 'add' | 'remove')[]
): Promise<Readonly<Record<string, readonly number[]>>> {
  const times = new Map<string, number[]>(kinds.map((kind) => [kind, []]))
  for (let i = 0; i < count; i++)
    for (const kind of kinds) {
      times.get(kind)?.push(await changeMs(stage, kind))
      await sleep(pauseMs + 50 * Math.random())
    }
  return Object.fromEntries(times)
}
