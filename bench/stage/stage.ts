// A running agent with a server and a client, for measurements of the whole agent.
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProxyMode } from '../../src/config/index.js'
import type { Namespace } from '../../test/support/namespaces.js'
import { realServersOf } from '../state.js'
import { AgentRun, type AgentOptions } from './agent-run.js'
import { millisecondsBetween } from './figures.js'
import { Manifests, type ChangeKind, type Size } from './manifests.js'
import { Prober, serve, withPlace } from './place.js'

/** Time between two changes: longer than a pass and the rest after it. */
const betweenChangesMs = 600

/** A namespace with a server, a client and an agent whose rules are in the kernel. */
export interface Stage {
  readonly place: Namespace
  readonly manifests: Manifests
  readonly agent: AgentRun
  readonly prober: Prober
  /** Milliseconds from the agent's start until the last service answered. */
  readonly coldMs: number
}

/** The options of a stage. */
export interface Setting {
  readonly mode: ProxyMode
  /** Path of the compiled bench/floor/connect.c. */
  readonly connect: string
  readonly size: Size
}

/** Runs `use` on a new stage. */
export async function onStage<T>(
  { mode, connect, size }: Setting,
  use: (stage: Stage) => Promise<T>,
  options: Omit<AgentOptions, 'mode'> = {},
): Promise<T> {
  const manifests = new Manifests(size)
  try {
    return await withPlace(async (place) => {
      await serve(place, connect)
      // One of many endpoints is expected: bursts of attempts, but fewer bursts, so that the client's own work does not dominate.
      const tickUs = size.reals === 1 ? 1000 : 5000
      const prober = new Prober(place, connect, { tickUs, burst: size.reals })
      const all = realServersOf(size.services - 1, size.reals)
      const expected = all.length === 1 ? all[0] : undefined
      const waiting = prober.answered({ address: manifests.lastVip, port: 80, expected })
      const agent = new AgentRun(place, ['--manifests', manifests.folder], { mode, ...options })
      const coldMs = millisecondsBetween(agent.startNs, await waiting)
      const result = await use({ place, manifests, agent, prober, coldMs })
      await agent.stop()
      return result
    })
  } finally {
    manifests.remove()
  }
}

/** Milliseconds from the rename of a manifest to the first new connection that the new endpoint answers. */
export async function changeMs({ manifests, prober }: Stage, kind: ChangeKind): Promise<number> {
  const startNs = process.hrtime.bigint()
  const { vip, endpoint } = manifests.change(kind)
  return millisecondsBetween(startNs, await prober.answered({ address: vip, port: 80, expected: endpoint }))
}

/** Times of `count` changes, one after the other. Each waits until the agent rests. */
export async function changesMs(stage: Stage, kind: ChangeKind, count: number): Promise<readonly number[]> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    times.push(await changeMs(stage, kind))
    await sleep(betweenChangesMs)
  }
  return times
}
