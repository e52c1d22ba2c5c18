// A kube-proxy in iptables mode with the tools of iptables-nft: the same figures as the agent's.
import { setTimeout as sleep } from 'node:timers/promises'
import { changesMs, churn } from '../api/changes.js'
import { KubeProxyRun } from '../api/peer.js'
import { ApiProcess } from '../api/setting.js'
import { coldMs, onApiStage, type StartRun } from '../api/stage.js'
import { generation } from '../nftables/agent-figures.js'
import { program as programAgent, Rates, withPlaces } from '../stage/connection-rates.js'
import { millisecondsBetween, spread } from '../stage/figures.js'
import type { Size } from '../stage/manifests.js'
import { openPlace, realPort } from '../stage/place.js'
import { realServer, vip } from '../state.js'
import { agent } from './agent.js'

const tickUs = 1000
/** After the first answer: longer than what kube-proxy does then. */
const restMs = 20_000
const changes = 20
const churnSeconds = 15

interface PeerSetting {
  readonly connect: string
  readonly size: Size
}

/** Throws when KUBE_PROXY names no program. */
export function startKubeProxy(): StartRun<KubeProxyRun> {
  const { KUBE_PROXY: binary = '' } = process.env
  if (binary === '') throw new Error('KUBE_PROXY names no program: set it to the path of a kube-proxy')
  return (place, api) =>
    new KubeProxyRun(place, api, { binary, mode: 'iptables', flavour: 'nft', flags: ['-v=2'] })
}

/** One start, changes one by one, then 20 per second. */
export async function peerFigures({ connect, size }: PeerSetting): Promise<Record<string, unknown>> {
  return await onApiStage({ connect, size, tickUs }, startKubeProxy(), async (stage) => {
    const startMs = await coldMs(stage, size)
    await sleep(restMs)
    const { change = [] } = await changesMs(stage, changes, 'change')
    const churned = await churn(stage, churnSeconds)
    return { startMs, change: spread(change), churn: churned }
  })
}

/** A start on the rules of the run before: time until they are written, and transactions. */
export async function peerRestartFigures({ size }: PeerSetting): Promise<Record<string, number>> {
  const place = await openPlace()
  try {
    const api = await ApiProcess.start(size, place)
    const first = startKubeProxy()(place, api)
    await first.inForce(['IPv4'])
    await first.stop()
    const before = await generation(place)
    const again = startKubeProxy()(place, api)
    await again.inForce(['IPv4'])
    const ms = millisecondsBetween(again.startNs, process.hrtime.bigint())
    await again.stop()
    const transactions = (await generation(place)) - before
    await api.stop()
    return { ms, transactions }
  } finally {
    await place.close()
  }
}

/** New connections with kube-proxy's rules, beside a node without Services. */
export async function peerConnectionFigures({
  connect,
  size,
}: PeerSetting): Promise<Record<string, unknown>> {
  return await withPlaces(async (open) => {
    const [empty, full] = [await open(), await open()]
    await programAgent(empty, agent, { services: 0, reals: 0 })
    const api = await ApiProcess.start(size, full)
    const run = startKubeProxy()(full, api)
    await run.inForce(['IPv4'])
    await run.stop()
    await api.stop()
    const pod = { address: realServer(0), port: realPort }
    const found = await Rates.measure(
      [
        { name: 'pod, no Services', place: empty, ...pod },
        { name: 'pod', place: full, ...pod },
        { name: 'first', place: full, address: vip(0), port: 80 },
        { name: 'last', place: full, address: vip(size.services - 1), port: 80 },
      ],
      connect,
    )
    return {
      rates: found.medians,
      lastByFirst: found.share('last', 'first'),
      podByEmpty: found.share('pod', 'pod, no Services'),
    }
  })
}
