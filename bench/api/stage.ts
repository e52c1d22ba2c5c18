// An agent at work beside the API server, with a server and a client for the Services.
import type { Namespace } from '../../test/support/namespaces.js'
import { type AgentMode, AgentRun } from '../stage/agent-run.js'
import { millisecondsBetween } from '../stage/figures.js'
import { Prober, serve, withPlace } from '../stage/place.js'
import { vip as vipOf } from '../state.js'
import type { Size } from '../stage/manifests.js'
import { ApiProcess } from './setting.js'

/** A program that programs the Services: the agent, or a kube-proxy. */
export interface Run {
  readonly startNs: bigint
  /** Seconds of a core that it has used. */
  cpuSeconds(): number
  stop(): Promise<void>
}

export interface ApiStage<R extends Run> {
  readonly place: Namespace
  readonly api: ApiProcess
  readonly prober: Prober
  readonly run: R
}

export interface ApiSetting {
  /** The program of bench/floor/connect.c. */
  readonly connect: string
  readonly size: Size
  /** Between two tries of the client. */
  readonly tickUs: number
}

export type StartRun<R extends Run> = (place: Namespace, api: ApiProcess) => R

/** A mode of the agent on a cluster of a given size. */
export interface ModeSetting {
  readonly agent: AgentMode
  /** The program of bench/floor/connect.c. */
  readonly connect: string
  readonly size: Size
}

/** Starts the shipped agent. `verbosity` 2, the default: its log names its passes, for `AgentRun.inForce`. */
export function startAgent(
  place: Namespace,
  api: ApiProcess,
  { verbosity = 2, ...mode }: AgentMode & { readonly verbosity?: 0 | 2 } = {},
): AgentRun {
  const under = ['env', `NODE_EXTRA_CA_CERTS=${api.certificate}`]
  const options = { ...mode, under, flags: ['-v', String(verbosity)] }
  return new AgentRun(place, ['--master', api.url], options)
}

/** Runs `use` on a fresh stage. */
export async function onApiStage<R extends Run, T>(
  { connect, size, tickUs }: ApiSetting,
  start: StartRun<R>,
  use: (stage: ApiStage<R>) => Promise<T>,
): Promise<T> {
  return await withPlace(async (place) => {
    await serve(place, connect)
    // As bench/stage/stage.ts: of many endpoints one is waited for.
    const prober = new Prober(place, connect, { tickUs, burst: size.reals })
    const api = await ApiProcess.start(size, place)
    const run = start(place, api)
    const result = await use({ place, api, prober, run })
    await run.stop()
    await api.stop()
    return result
  })
}

/** Milliseconds from the start of the program until the last Service answers. */
export async function coldMs({ run, prober }: ApiStage<Run>, { services }: Size): Promise<number> {
  const target = { address: vipOf(services - 1), port: 80, expected: undefined }
  return millisecondsBetween(run.startNs, await prober.answered(target))
}

/** Milliseconds from the event on its way to the first connection that shows the change. */
export async function changeMs(
  { api, prober }: Pick<ApiStage<Run>, 'api' | 'prober'>,
  what: 'change' | 'add' | 'remove',
): Promise<number> {
  const { vip, endpoint, sentNs } = await api.send(what)
  const seenNs =
    what === 'remove'
      ? await prober.refused(vip, 80)
      : await prober.answered({ address: vip, port: 80, expected: endpoint })
  return millisecondsBetween(sentNs, seenNs)
}
