// New connections per second, made one after the other, with different rules.
import type { Namespace } from '../../test/support/namespaces.js'
import { program, type Rate, Rates, withPlaces } from '../stage/connection-rates.js'
import { realPort } from '../stage/place.js'
import type { Setting } from '../stage/stage.js'
import { realServer, vip } from '../state.js'
import { restoreServices } from './restore-figures.js'

/** Rules for connection tracking and NAT without Services, to measure their own cost. */
async function track(place: Namespace): Promise<void> {
  await place.must('iptables-legacy', '-t', 'nat', '-L', '-n')
  await place.must(...'iptables-legacy -A FORWARD -m conntrack --ctstate INVALID -j DROP'.split(' '))
}

async function compareWays(
  { connect, mode, size }: Setting,
  open: () => Promise<Namespace>,
): Promise<Figures> {
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
  await program(places.empty, { mode }, { services: 0, reals: 0 })
  await program(places.viaduct, { mode }, size)
  await program(places.pods, { mode }, size)
  await restoreServices(places.kubeProxy, size)
  const pod = { address: realServer(0), port: realPort }
  const first = { address: vip(0), port: 80 }
  const last = { address: vip(size.services - 1), port: 80 }
  const found = await Rates.measure(
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
  return {
    rates: found.medians,
    lastByFirst: found.share('last, Viaduct', 'first, Viaduct'),
    podByEmpty: found.share('pod, Viaduct', 'pod, Viaduct without Services'),
    podByBare: found.share('pod, Viaduct', 'pod, no rules at all'),
    kubeProxyLastByFirst: found.share('last, kube-proxy', 'first, kube-proxy'),
    kubeProxyPodByEmpty: found.share('pod, kube-proxy', 'pod, Viaduct without Services'),
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
  return await withPlaces(async (open) => await compareWays(setting, open))
}
