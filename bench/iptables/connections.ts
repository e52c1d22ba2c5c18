// New connections per second, made one after the other, with different rules.
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Namespace } from '../../test/support/namespaces.js'
import { realServer, vip } from '../state.js'
import { AgentRun } from './agent-run.js'
import { median } from './figures.js'
import { Manifests, type Size } from './manifests.js'
import { openPlace } from './place.js'
import { restoreServices } from './restore-figures.js'
import type { Setting } from './stage.js'

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

/** Programs the rules with an agent that then stops. The rules stay. */
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

/** Rules for connection tracking and NAT without Services, to measure their own cost. */
async function track(place: Namespace): Promise<void> {
  await place.must('iptables-legacy', '-t', 'nat', '-L', '-n')
  await place.must(...'iptables-legacy -A FORWARD -m conntrack --ctstate INVALID -j DROP'.split(' '))
}

async function rateOf({ place, address, port }: Way, connect: string): Promise<Rate> {
  const output = await place.must(connect, 'rate', address, String(port), String(connectionsPerRound))
  return Value.Parse(Rate, JSON.parse(output))
}

/** Measures all ways in turn in each round. Each round starts with another way, so that no way benefits from a quiet moment. */
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
    // Connections to pods have their own place, as without Services: ended connections stay for some time and slow down the search for a
    // free port.
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
  /** Median over the rounds of the ratio of two rates. */
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

/** Medians of every way, and the ratios between ways. */
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
