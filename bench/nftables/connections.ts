// New connections beside the rules of the agent.
import type { Namespace } from '../../test/support/namespaces.js'
import type { ModeSetting } from '../api/stage.js'
import { program, type Rate, Rates, withPlaces } from '../stage/connection-rates.js'
import { realPort } from '../stage/place.js'
import { realServer, vip } from '../state.js'

interface Figures {
  readonly rates: Readonly<Record<string, Rate>>
  readonly lastByFirst: number
  readonly podByEmpty: number
  readonly podByBare: number
}

async function compareWays(
  { agent, connect, size }: ModeSetting,
  open: () => Promise<Namespace>,
): Promise<Figures> {
  // Ways that are compared with each other have places of their own: connections that are over stay for a while, and are in the
  // way of those that look for a free port.
  const [bare, empty, pods, first, last] = [
    await open(),
    await open(),
    await open(),
    await open(),
    await open(),
  ]
  await program(empty, agent, { services: 0, reals: 0 })
  for (const place of [pods, first, last]) await program(place, agent, size)
  const pod = { address: realServer(0), port: realPort }
  const found = await Rates.measure(
    [
      { name: 'pod, no rules at all', place: bare, ...pod },
      { name: 'pod, no Services', place: empty, ...pod },
      { name: 'pod', place: pods, ...pod },
      { name: 'first', place: first, address: vip(0), port: 80 },
      { name: 'last', place: last, address: vip(size.services - 1), port: 80 },
    ],
    connect,
  )
  return {
    rates: found.medians,
    lastByFirst: found.share('last', 'first'),
    podByEmpty: found.share('pod', 'pod, no Services'),
    podByBare: found.share('pod', 'pod, no rules at all'),
  }
}

/** Medians of every way, and what counts: the ways by each other, round by round. */
export async function connectionFigures(setting: ModeSetting): Promise<Figures> {
  return await withPlaces(async (open) => await compareWays(setting, open))
}
