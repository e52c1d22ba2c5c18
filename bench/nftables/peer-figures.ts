// A kube-proxy in nftables mode and the agent in turns, beside the same API server.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Size } from '../stage/manifests.js'
import { KubeProxyRun } from '../api/peer.js'
import { changeMs, coldMs, onApiStage, type Run, startAgent, type StartRun } from '../api/stage.js'
import { median, medians } from '../stage/figures.js'

const rounds = 3
const changes = 6
const tickUs = 1000
/** After a start and after each change: longer than what kube-proxy does then. */
const restMs = 1500
const mode = 'nftables'

type Figures = Readonly<Record<'startMs' | 'startCpuMs' | 'changeMs' | 'changeCpuMs', number>>

/** One start, and changed endpoints one by one, with the CPU of the programs that it runs. */
async function runOnce(start: StartRun<Run>, connect: string, size: Size): Promise<Figures> {
  return await onApiStage({ connect, size, tickUs }, start, async (stage) => {
    const startMs = await coldMs(stage, size)
    await sleep(restMs)
    const startCpuMs = stage.run.cpuSeconds() * 1000
    const times: number[] = []
    for (let i = 0; i < changes; i++) {
      times.push(await changeMs(stage, 'change'))
      await sleep(restMs)
    }
    const changeCpuMs = (stage.run.cpuSeconds() * 1000 - startCpuMs) / changes
    return { startMs, startCpuMs, changeMs: median(times), changeCpuMs }
  })
}

/** Medians of the rounds, of each program. */
export async function peerFigures(connect: string, size: Size): Promise<Record<string, unknown>> {
  const { KUBE_PROXY: binary = '' } = process.env
  if (binary === '') throw new Error('KUBE_PROXY names no program: set it to the path of a kube-proxy')
  const programs: Readonly<Record<string, StartRun<Run>>> = {
    peer: (place, api) => new KubeProxyRun(place, api, { binary, mode }),
    ours: (place, api) => startAgent(place, api, { mode, verbosity: 0 }),
  }
  const found = new Map<string, Figures[]>(Object.keys(programs).map((name) => [name, []]))
  for (let round = 0; round < rounds; round++)
    for (const [name, start] of Object.entries(programs))
      found.get(name)?.push(await runOnce(start, connect, size))
  return Object.fromEntries([...found].map(([name, figures]) => [name, medians(figures)]))
}
