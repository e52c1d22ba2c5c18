// The shipped agent with very many endpoints: what a restart, a full comparison and the memory cost.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Namespace } from '../../test/support/namespaces.js'
import { ApiProcess } from '../api/setting.js'
import { startAgent } from '../api/stage.js'
import type { AgentRun } from '../stage/agent-run.js'
import { millisecondsBetween } from '../stage/figures.js'
import type { Size } from '../stage/manifests.js'
import { Prober, serve, withPlace } from '../stage/place.js'
import { generation } from './agent-figures.js'
import { type Lag, lagOf } from './lags.js'
import { loseEvents } from './lost-events.js'

/** Behind a start, whose remaining work and garbage collection end in it. */
const restMs = 3000
/** Longer than a sync period, in which the agent compares everything. */
const periodSeconds = 32
const changeEveryMs = 250
/** The kernel frees elements after a grace period. */
const freeMs = 3000

interface Start {
  /** From the start of the process until the agent has written or compared everything of IPv4. */
  readonly ms: number
  readonly cpuMs: number
  /** The agent's own time of that first pass. */
  readonly passMs: number
  readonly restMiB: number
  readonly peakMiB: number
}

export interface HugeFigures {
  readonly size: Size
  readonly first: Start
  /** On the rules that the run before has left. */
  readonly restart: Start
  readonly restartTransactions: number
  /** CPU of a sync period in which nothing happens, and of one behind lost events of the ruleset. */
  readonly periodCpuMs: { readonly quiet: number; readonly compared: number }
  /** The lags of single changes beside such a comparison. */
  readonly lag: Lag
  /** Memory of the kernel that the ruleset holds. NB: other work on the machine changes the figure by some MiB. */
  readonly kernelMiB: number
}

/** One start, a comparison, and one restart, with further comparisons beside changes. `connect`: the program of bench/floor/connect.c. */
export async function adoptionFigures(connect: string, size: Size): Promise<HugeFigures> {
  return await withPlace(async (place) => {
    await serve(place, connect)
    const prober = new Prober(place, connect, { tickUs: 1000, burst: size.reals })
    const api = await ApiProcess.start(size, place)
    const one = startAgent(place, api, { mode: 'nftables' })
    const first = await startOf(one)
    await sleep(periodSeconds * 1000)
    const periodCpuMs = {
      quiet: await periodCpu(one),
      compared: await periodCpu(one, () => loseEvents(place, one)),
    }
    await one.stop()
    const before = await generation(place)
    const other = startAgent(place, api, { mode: 'nftables' })
    const restart = await startOf(other)
    const restartTransactions = (await generation(place)) - before
    const changes = { seconds: periodSeconds, everyMs: changeEveryMs }
    await loseEvents(place, other)
    const lag = await lagOf({ api, prober }, changes)
    await other.stop()
    const kernelMiB = await rulesetMiB(place)
    await api.stop()
    return { size, first, restart, restartTransactions, periodCpuMs, lag, kernelMiB }
  })
}

async function startOf(agent: AgentRun): Promise<Start> {
  await agent.inForce()
  const ms = millisecondsBetween(agent.startNs, process.hrtime.bigint())
  const cpuMs = agent.cpuSeconds() * 1000
  const passMs = passOf(agent)
  await sleep(restMs)
  return { ms, cpuMs, passMs, ...agent.memory() }
}

/** From the line that `AgentRun.inForce` waits for. */
function passOf(agent: AgentRun): number {
  const line = agent.log.find((text) => text.includes('"Sync done"') && text.includes('"IPv4"'))
  return Number(/"elapsed":"([\d.]+)ms"/.exec(line ?? '')?.[1])
}

async function periodCpu(agent: AgentRun, act?: () => Promise<void>): Promise<number> {
  await act?.()
  const before = agent.cpuSeconds()
  await sleep(periodSeconds * 1000)
  return (agent.cpuSeconds() - before) * 1000
}

/** Removes the ruleset. Returns the memory of the kernel that this has freed. */
async function rulesetMiB(place: Namespace): Promise<number> {
  const before = kernelMemoryMiB()
  await place.must('nft', 'flush ruleset')
  await sleep(freeMs)
  return before - kernelMemoryMiB()
}

/** Memory of the kernel, also that of other programs of the machine. It has no caches of files. */
function kernelMemoryMiB(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const kibibytes = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(text)?.[1])
  return (kibibytes('SUnreclaim') + kibibytes('VmallocUsed')) / 1024
}
