// The counters of rules in table nat. A packet passes nat only if it is the first of its connection, so packets are connections.
import { formatEndpoint } from '../../address.js'
import { addCounters, countAt, type CounterReading, type TrafficCounters } from '../../engine/index.js'
import type { Xtables } from '../../kernel/index.js'
import { describeFrontend, frontendsOf, type Route } from '../../routing/index.js'
import type { DesiredRoute } from './compile/desired.js'
import type { IptablesLedger } from './ledger.js'

interface Read {
  readonly ledger: Pick<IptablesLedger, 'natChains' | 'natPlaceOf'>
  readonly nat: Pick<Xtables, 'packets'>
}

type Counts = ReadonlyMap<string, readonly number[]>

/** Reads the counters of all of our chains once. `compile`: the desired state of a route. Throws KernelError. */
export async function readCounters(
  { ledger, nat }: Read,
  compile: (decided: Route) => DesiredRoute,
): Promise<CounterReading> {
  const chains = ledger.natChains()
  const read = await nat.packets(chains)
  const counts: Counts = new Map(chains.map((chain, at) => [chain, read[at] ?? []]))
  return (decided) => {
    const endpoints = countEndpoints(compile(decided), counts)
    return {
      total: [...endpoints.values()].reduce(addCounters, { connections: 0 }),
      endpoint: (endpoint) => endpoints.get(endpoint) ?? {},
      frontend: (frontend) => {
        const known = frontendsOf(decided).find((each) => describeFrontend(each) === frontend)
        const place = known && ledger.natPlaceOf(known, decided.key)
        const ofChain = place && counts.get(place.chain)
        // Another length: the chain has changed since the reading.
        if (place === undefined || ofChain?.length !== place.size) return {}
        return { connections: ofChain[place.rule] ?? 0 }
      },
    }
  }
}

/** By endpoint; of an endpoint that both policies use, the sum. */
function countEndpoints({ chains }: DesiredRoute, counts: Counts): ReadonlyMap<string, TrafficCounters> {
  const endpoints = new Map<string, TrafficCounters>()
  for (const { table, chain, rules } of chains) {
    const ofChain = table === 'nat' ? counts.get(chain) : undefined
    // Another length: the chain has changed since the reading.
    if (ofChain?.length !== rules.length) continue
    for (const [at, { target }] of rules.entries())
      if (target.kind === 'dnat')
        countAt(endpoints, formatEndpoint(target.address, target.port), { connections: ofChain[at] ?? 0 })
  }
  return endpoints
}
