// The counters of rules in table nat. A packet passes nat only if it is the first of its connection, so packets are connections.
import { formatEndpoint } from '../../address.js'
import type { Clock } from '../../clock.js'
import type { CounterReading, PortCounters, TrafficCounters } from '../../engine/index.js'
import type { RulePackets, XtTarget, Xtables } from '../../kernel/index.js'
import { describeFrontend, frontendsOf, type Route } from '../../routing/index.js'
import type { DesiredRoute } from './compile/desired.js'
import type { IptablesLedger } from './ledger.js'

interface Read {
  readonly ledger: Pick<IptablesLedger, 'natChains' | 'natPlaceOf'>
  readonly nat: Pick<Xtables, 'packets'>
  readonly clock: Pick<Clock, 'pause'>
}

/** The routes as the agent wants them now. */
interface Routes {
  readonly compile: (decided: Route) => DesiredRoute
  /**
   * False: the rules that were read may lead to other endpoints, and be of other frontends, than those of the route: it was not in force
   * when the reading began, or has changed since.
   */
  readonly isOfReading: (decided: Route) => boolean
}

/** Chains that are listed before other work of the agent gets its turn: less than 0.5 ms. */
const chainsAtOnce = 1000

/** Reads the counters of all of our chains once. Throws KernelError. */
export async function readCounters(
  { ledger, nat, clock }: Read,
  { compile, isOfReading }: Routes,
): Promise<CounterReading> {
  const numbers = new Map<string, number>()
  for (const chain of ledger.natChains()) {
    // A chain that goes and comes back in a pause is listed twice.
    if (!numbers.has(chain)) numbers.set(chain, numbers.size)
    if (numbers.size % chainsAtOnce === 0) await clock.pause()
  }
  const counts = new ChainCounts(numbers, await nat.packets([...numbers.keys()]))
  return (decided) => new RouteCounts(decided, { ledger, compile, isOfReading, counts })
}

interface Sources extends Routes, Pick<Read, 'ledger'> {
  readonly counts: ChainCounts
}

/** The figures on one route. Only those that a row shows are looked for. */
class RouteCounts implements PortCounters {
  readonly #decided: Route
  readonly #sources: Sources
  #endpoints: ReadonlyMap<string, number> | undefined

  constructor(decided: Route, sources: Sources) {
    this.#decided = decided
    this.#sources = sources
  }

  get total(): TrafficCounters {
    let connections = 0
    for (const { count } of this.#rules()) connections += count
    return { connections }
  }

  /** Of an endpoint that both policies use, the sum. */
  endpoint(endpoint: string): TrafficCounters {
    if (!this.#sources.isOfReading(this.#decided)) return {}
    this.#endpoints ??= this.#countEndpoints()
    return connectionsOf(this.#endpoints.get(endpoint))
  }

  frontend(frontend: string): TrafficCounters {
    const { ledger, counts, isOfReading } = this.#sources
    if (!isOfReading(this.#decided)) return {}
    const known = frontendsOf(this.#decided).find((each) => describeFrontend(each) === frontend)
    const place = known && ledger.natPlaceOf(known, this.#decided.key)
    return connectionsOf(place && counts.in(place.chain, place.size)?.(place.rule))
  }

  #countEndpoints(): ReadonlyMap<string, number> {
    const endpoints = new Map<string, number>()
    for (const { target, count } of this.#rules()) {
      const endpoint = formatEndpoint(target.address, target.port)
      endpoints.set(endpoint, (endpoints.get(endpoint) ?? 0) + count)
    }
    return endpoints
  }

  /** The rules that lead to endpoints. */
  *#rules(): Generator<{ readonly target: Dnat; readonly count: number }> {
    const { compile, counts } = this.#sources
    for (const { table, chain, rules } of compile(this.#decided).chains) {
      const countOf = table === 'nat' ? counts.in(chain, rules.length) : undefined
      if (countOf === undefined) continue
      for (const [rule, { target }] of rules.entries())
        if (target.kind === 'dnat') yield { target, count: countOf(rule) ?? 0 }
    }
  }
}

type Dnat = Extract<XtTarget, { readonly kind: 'dnat' }>

/** The counts of one reading. */
class ChainCounts {
  readonly #numbers: ReadonlyMap<string, number>
  readonly #packets: RulePackets

  constructor(numbers: ReadonlyMap<string, number>, packets: RulePackets) {
    this.#numbers = numbers
    this.#packets = packets
  }

  /** The counts by rule; undefined: the chain had another number of rules, so it has changed since the reading. */
  in(chain: string, size: number): ((rule: number) => number | undefined) | undefined {
    const number = this.#numbers.get(chain)
    if (number === undefined || this.#packets.sizeOf(number) !== size) return undefined
    return (rule) => this.#packets.at(number, rule)
  }
}

function connectionsOf(connections: number | undefined): TrafficCounters {
  return connections === undefined ? {} : { connections }
}
