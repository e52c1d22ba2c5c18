// One agent of a fleet: what it costs its node at rest and while the cluster changes, at default sync settings. If KUBE_PROXY names a
// kube-proxy, its figures too.
import { setTimeout as sleep } from 'node:timers/promises'
import { AgentRun } from '../stage/agent-run.js'
import type { Namespace } from '../../test/support/namespaces.js'
import { KubeProxyRun } from './peer.js'
import { scrape } from './scrape.js'
import { coldMs, onApiStage, type Run, startAgent, type StartRun } from './stage.js'

const mode = 'nftables'
const size = { services: 2000, reals: 5 }
const tickUs = 1000
/** The collections that follow a start are over. */
const settleMs = 60_000
const restSeconds = 120
const [perSecond, changeSeconds] = [20, 30]
/** Longer than the time between two syncs of any program. */
const lastSyncMs = 3000

interface FleetFigures {
  readonly restCpuMsPerMinute: number
  readonly cpuMsPerChange: number
  /** The part on the thread of JavaScript; absent: the program has none. */
  readonly javaScriptMsPerChange?: number
  readonly changes: number
  /** Syncs that wrote these changes. */
  readonly passes: number
}

/** Figures of the agent, `ours`, and of a kube-proxy with the tools that it runs, `peer`. */
export async function fleetFigures(connect: string): Promise<Readonly<Record<string, FleetFigures>>> {
  const { KUBE_PROXY: binary } = process.env
  const ours = await runOnce(connect, (place, api) => startAgent(place, api, { mode, verbosity: 0 }))
  if (binary === undefined) return { ours }
  const peer = await runOnce(connect, (place, api) => new KubeProxyRun(place, api, { binary, mode }))
  return { ours, peer }
}

async function runOnce(connect: string, start: StartRun<Run>): Promise<FleetFigures> {
  return await onApiStage({ connect, size, tickUs }, start, async (stage) => {
    const { place, api, run } = stage
    await coldMs(stage, size)
    await sleep(settleMs)
    const beforeRest = run.cpuSeconds()
    await sleep(restSeconds * 1000)
    const restCpuMsPerMinute = ((run.cpuSeconds() - beforeRest) * 1000 * 60) / restSeconds
    const [before, javaScriptBefore] = [run.cpuSeconds(), javaScriptSeconds(run)]
    const changes = perSecond * changeSeconds
    await api.churn(changes, perSecond)
    await sleep(lastSyncMs)
    const msPerChange = (seconds: number): number => (seconds * 1000) / changes
    const [after, javaScriptAfter] = [run.cpuSeconds(), javaScriptSeconds(run)]
    const javaScriptMsPerChange =
      javaScriptAfter === undefined || javaScriptBefore === undefined
        ? {}
        : { javaScriptMsPerChange: msPerChange(javaScriptAfter - javaScriptBefore) }
    const cpuMsPerChange = msPerChange(after - before)
    // After the measurement: the first question for metrics makes the agent watch its event loop, which costs CPU.
    const passes = await partialSyncs(place)
    return { restCpuMsPerMinute, cpuMsPerChange, ...javaScriptMsPerChange, changes, passes }
  })
}

function javaScriptSeconds(run: Run): number | undefined {
  return run instanceof AgentRun ? run.javaScriptSeconds() : undefined
}

/** Syncs so far that wrote changes only. The start's sync is no such one. Throws if the program does not count them. */
async function partialSyncs(place: Namespace): Promise<number> {
  const name = 'kubeproxy_sync_partial_proxy_rules_duration_seconds_count'
  const line = new RegExp(`^${name}\\{ip_family="IPv4"\\} (\\S+)$`, 'm')
  const [, count] = line.exec(await scrape(place)) ?? []
  if (count === undefined) throw new Error(`the program has no ${name}`)
  return Number(count)
}
