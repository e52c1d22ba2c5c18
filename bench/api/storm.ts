// Changes of one Service beside those of a tenant, who changes a slice behind a Service of many ports again and again.
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../stage/figures.js'
import { changeMs, coldMs, type ModeSetting, onApiStage, type Run, type StartRun } from './stage.js'
import { Tenant, type TenantText } from './tenants.js'

const tickUs = 1000
const restMs = 3000
const stormSeconds = 30
const perSecond = 19
const betweenChangesMs = 1000

/** Times of single changes: without a storm, during it, and of the one at its end; CPU from the begin of the storm until the end is in force. */
export async function stormFigures(
  start: StartRun<Run>,
  { connect, size, tenant }: Omit<ModeSetting, 'agent'> & { readonly tenant: TenantText },
): Promise<Record<string, unknown>> {
  return await onApiStage({ connect, size, tickUs }, start, async (stage) => {
    const { api, prober, run } = stage
    await coldMs(stage, size)
    await api.addTenant(tenant)
    await prober.answered({ ...new Tenant(tenant).place, expected: undefined })
    await sleep(restMs)
    const quietMs = await changeMs(stage, 'change')
    await sleep(restMs)
    const cpuBefore = run.cpuSeconds()
    const times: Promise<number>[] = []
    const began = performance.now()
    await api.storm(tenant, { count: stormSeconds * perSecond, perSecond })
    while (performance.now() - began < stormSeconds * 1000) {
      times.push(changeMs(stage, 'change'))
      await sleep(betweenChangesMs)
    }
    const afterMs = await changeMs(stage, 'change')
    const all = await Promise.all(times)
    const cpuSeconds = run.cpuSeconds() - cpuBefore
    return { quietMs, medianMs: median(all), maxMs: Math.max(...all), afterMs, cpuSeconds }
  })
}
