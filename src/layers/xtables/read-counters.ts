// The counters of rules in table nat. A packet passes nat only if it is the first of its connection, so packets are connections.
import type { Clock } from '../../clock.js'
import type { CounterReading, PortCounters, TrafficCounters } from '../../engine/index.js'
import type { RulePackets, Xtables } from '../../kernel/index.js'
import type { Backend, Frontend, Route } from '../../routing/index.js'
import type { IptablesLedger } from './ledger.js'

/** Rules of one chain that lead to endpoints, each to the next of `backends`. */
export interface EndpointRules {
  readonly chain: string
  /** The number of rules of the chain. */
  readonly size: number
  /** The rule of the first endpoint. */
  readonly first: number
  readonly backends: readonly Backend[]
}

interface Read {
  readonly ledger: Pick<IptablesLedger, 'natChains' | 'natPlaceOf'>
  readonly nat: Pick<Xtables, 'packets'>
  readonly clock: Pick<Clock, 'pause'>
}

/** The routes as the agent wants them now. */
interface Routes {
  readonly endpointRules: (decided: Route) => readonly EndpointRules[]
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
  { endpointRules, isOfReading }: Routes,
): Promise<CounterReading> {
  const numbers = new Map<string, number>()
  for (const chain of ledger.natChains()) {
    // A chain that goes and comes back in a pause is listed twice.
    if (!numbers.has(chain)) numbers.set(chain, numbers.size)
    if (numbers.size % chainsAtOnce === 0) await clock.pause()
  }
  const counts = new ChainCounts(numbers, await nat.packets([...numbers.keys()]))
  return (decided) => new RouteCounts(decided, { ledger, endpointRules, isOfReading, counts })
}

interface Sources extends Routes, Pick<Read, 'ledger'> {
  readonly counts: ChainCounts
}

/** The figures on one route, for rows that are made at once. Only those that a row shows are looked for. */
class RouteCounts implements PortCounters {
  readonly #decided: Route
  readonly #sources: Sources
  #isOfReading: boolean | undefined
  #lists: readonly CountedEndpoints[] | undefined

  constructor(decided: Route, sources: Sources) {
    this.#decided = decided
    this.#sources = sources
  }

  get total(): TrafficCounters {
    let connections = 0
    for (const list of this.#endpoints()) connections += list.total
    return { connections }
  }

  /** Of an endpoint that both policies use, the sum. */
  endpoint(endpoint: Pick<Backend, 'address' | 'port'>): TrafficCounters {
    if (!this.#isCurrent()) return {}
    let connections: number | undefined
    for (const list of this.#endpoints()) {
      const count = list.of(endpoint)
      if (count !== undefined) connections = (connections ?? 0) + count
    }
    return connectionsOf(connections)
  }

  frontend(frontend: Frontend): TrafficCounters {
    if (!this.#isCurrent()) return {}
    const { ledger, counts } = this.#sources
    const place = ledger.natPlaceOf(frontend, this.#decided.key)
    return connectionsOf(place && counts.in(place.chain, place.size)?.(place.rule))
  }

  #isCurrent(): boolean {
    return (this.#isOfReading ??= this.#sources.isOfReading(this.#decided))
  }

  #endpoints(): readonly CountedEndpoints[] {
    const { endpointRules, counts } = this.#sources
    this.#lists ??= endpointRules(this.#decided).flatMap((rules) => {
      const countOf = counts.in(rules.chain, rules.size)
      return countOf === undefined ? [] : [new CountedEndpoints(rules, countOf)]
    })
    return this.#lists
  }
}

/** The counts of the endpoints of one chain. */
class CountedEndpoints {
  readonly #rules: EndpointRules
  readonly #countOf: (rule: number) => number | undefined
  /** Rows ask for endpoints in the order of the rules. */
  #next = 0

  constructor(rules: EndpointRules, countOf: (rule: number) => number | undefined) {
    this.#rules = rules
    this.#countOf = countOf
  }

  get total(): number {
    let total = 0
    for (let index = 0; index < this.#rules.backends.length; index++) total += this.#at(index)
    return total
  }

  /** undefined: no rule leads to the endpoint. */
  of(endpoint: Pick<Backend, 'address' | 'port'>): number | undefined {
    const { backends } = this.#rules
    const isEndpoint = ({ address, port }: Backend): boolean =>
      address === endpoint.address && port === endpoint.port
    const next = backends[this.#next]
    const index = next !== undefined && isEndpoint(next) ? this.#next : backends.findIndex(isEndpoint)
    if (index < 0) return undefined
    this.#next = index + 1
    return this.#at(index)
  }

  #at(index: number): number {
    return this.#countOf(this.#rules.first + index) ?? 0
  }
}

/** The counts of one reading. */
class ChainCounts {
  readonly #numbers: ReadonlyMap<string, number>
  readonly #packets: RulePackets

  constructor(numbers: ReadonlyMap<string, number>, packets: RulePackets) {
    this.#numbers = numbers
    this.#packets = packets
  }

  /** The counts of a chain by rule; undefined: it had another number of rules, so it has changed since the reading. */
  in(chain: string, size: number): ((rule: number) => number | undefined) | undefined {
    const number = this.#numbers.get(chain)
    if (number === undefined || this.#packets.sizeOf(number) !== size) return undefined
    return (rule) => this.#packets.at(number, rule)
  }
}

function connectionsOf(connections: number | undefined): TrafficCounters {
  return connections === undefined ? {} : { connections }
}
