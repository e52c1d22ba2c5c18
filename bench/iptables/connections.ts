// New connections per second, one after the other, as rules make them slower.
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Namespace } from '../../test/support/namespaces.js'
import { realServer, vip } from '../state.js'
import { AgentRun } from '../stage/agent-run.js'
import { median } from '../stage/figures.js'
import { Manifests, type Size } from '../stage/manifests.js'
import { openPlace } from '../stage/place.js'
import { restoreServices } from './restore-figures.js'
import type { Setting } from '../stage/stage.js'

const rounds = 15
const connectionsPerRound = 4000
const realPort = 8080

const Rate = Type.Object({ perSecond: Type.Number(), p50Us: Type.Number(), p99Us: Type.Number() })
type Rate = Static<typeof Rate>

/** A client and the destination of its connections. */
interface Way {
  readonly name: string
  readonly place: Namespace
  readonly address: string
  readonly port: number
}

/** Rules that stay when the agent has gone. */
async function program(place: Namespace, size: Size): Promise<void> {
  const manifests = new Manifests(size)
  try {
    const agent = new AgentRun(place, ['--manifests', manifests.folder], { flags: ['-v', '2'] })
    await agent.inForce()
    await agent.stop()
  } finally {
    manifests.remove()
  }
}

/** A node that tracks connections and translates addresses, for no Service: what conntrack and nat cost by themselves. */
async function track(place: Namespace): Promise<void> {
  await place.must('iptables-legacy', '-t', 'nat', '-L', '-n')
  await place.must(...'iptables-legacy -A FORWARD -m conntrack --ctstate INVALID -j DROP'.split(' '))
}

async function rateOf({ place, address, port }: Way, connect: string): Promise<Rate> {
  const output = await place.must(connect, 'rate', address, String(port), String(connectionsPerRound))
  return Value.Parse(Rate, JSON.parse(output))
}

/** Rounds go over all ways in turn, each beginning with another one: so that a busy moment of the machine favours none. */
async function measure(ways: readonly Way[], connect: string): Promise<ReadonlyMap<string, readonly Rate[]>> {
  const found = new Map<string, Rate[]>(ways.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    const first = round % ways.length
    for (const way of [...ways.slice(first), ...ways.slice(0, first)])
      found.get(way.name)?.push(await rateOf(way, connect))
  }
  return found
}

async function compareWays({ connect, size }: Setting, open: () => Promise<Namespace>): Promise<Figures> {
  const places = {
    bare: await open(),
    tracking: await open(),
    empty: await open(),
    viaduct: await open(),
    // Pods have a place of their own, as they have without Services: connections that are over stay for a while, and are in the
    // way of those that look for a free port.
    pods: await open(),
    kubeProxy: await open(),
  }
  await track(places.tracking)
  await program(places.empty, { services: 0, reals: 0 })
  await program(places.viaduct, size)
  await program(places.pods, size)
  await restoreServices(places.kubeProxy, size)
  const pod = { address: realServer(0), port: realPort }
  const first = { address: vip(0), port: 80 }
  const last = { address: vip(size.services - 1), port: 80 }
  const found = await measure(
    [
      { name: 'pod, no rules at all', place: places.bare, ...pod },
      { name: 'pod, conntrack and nat without Services', place: places.tracking, ...pod },
      { name: 'pod, Viaduct without Services', place: places.empty, ...pod },
      { name: 'pod, Viaduct', place: places.pods, ...pod },
      { name: 'first, Viaduct', place: places.viaduct, ...first },
      { name: 'last, Viaduct', place: places.viaduct, ...last },
      { name: 'pod, kube-proxy', place: places.kubeProxy, ...pod },
      { name: 'first, kube-proxy', place: places.kubeProxy, ...first },
      { name: 'last, kube-proxy', place: places.kubeProxy, ...last },
    ],
    connect,
  )
  /** Median over the rounds of one way's rate by another's. */
  const share = (name: string, of: string): number => {
    const whole = found.get(of) ?? []
    return median((found.get(name) ?? []).map((rate, i) => rate.perSecond / (whole[i]?.perSecond ?? NaN)))
  }
  return {
    rates: Object.fromEntries([...found].map(([name, rates]) => [name, medianRate(rates)])),
    lastByFirst: share('last, Viaduct', 'first, Viaduct'),
    podByEmpty: share('pod, Viaduct', 'pod, Viaduct without Services'),
    podByBare: share('pod, Viaduct', 'pod, no rules at all'),
    kubeProxyLastByFirst: share('last, kube-proxy', 'first, kube-proxy'),
    kubeProxyPodByEmpty: share('pod, kube-proxy', 'pod, Viaduct without Services'),
  }
}

interface Figures {
  readonly rates: Readonly<Record<string, Rate>>
  readonly lastByFirst: number
  readonly podByEmpty: number
  readonly podByBare: number
  readonly kubeProxyLastByFirst: number
  readonly kubeProxyPodByEmpty: number
}

/** Medians of every way, and what counts: the ways by each other, round by round. */
export async function connectionFigures(setting: Setting): Promise<Figures> {
  const places: Namespace[] = []
  try {
    return await compareWays(setting, async () => {
      const place = await openPlace()
      places.push(place)
      return place
    })
  } finally {
    for (const place of places) await place.close()
  }
}

function medianRate(rates: readonly Rate[]): Rate {
  return {
    perSecond: median(rates.map(({ perSecond }) => perSecond)),
    p50Us: median(rates.map(({ p50Us }) => p50Us)),
    p99Us: median(rates.map(({ p99Us }) => p99Us)),
  }
}
