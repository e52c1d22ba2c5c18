// New connections per second, one after the other, as rules make them slower.
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Namespace } from '../../test/support/namespaces.js'
import { type AgentMode, AgentRun } from './agent-run.js'
import { median } from './figures.js'
import { Manifests, type Size } from './manifests.js'
import { openPlace } from './place.js'

const rounds = 15
const connectionsPerRound = 4000

const Rate = Type.Object({ perSecond: Type.Number(), p50Us: Type.Number(), p99Us: Type.Number() })
export type Rate = Static<typeof Rate>

/** A client and the destination of its connections. */
export interface Way {
  readonly name: string
  readonly place: Namespace
  readonly address: string
  readonly port: number
}

/** The rates of each way, in each round. */
export class Rates {
  readonly #rates: ReadonlyMap<string, readonly Rate[]>

  private constructor(rates: ReadonlyMap<string, readonly Rate[]>) {
    this.#rates = rates
  }

  /**
   * Rounds go over all ways in turn, each beginning with another one: so that a busy moment of the machine favours none. `connect`:
   * the program of bench/floor/connect.c.
   */
  static async measure(ways: readonly Way[], connect: string): Promise<Rates> {
    const found = new Map<string, Rate[]>(ways.map(({ name }) => [name, []]))
    for (let round = 0; round < rounds; round++) {
      const first = round % ways.length
      for (const way of [...ways.slice(first), ...ways.slice(0, first)])
        found.get(way.name)?.push(await rateOf(way, connect))
    }
    return new Rates(found)
  }

  /** Medians of each way. */
  get medians(): Readonly<Record<string, Rate>> {
    return Object.fromEntries([...this.#rates].map(([name, rates]) => [name, medianRate(rates)]))
  }

  /** Median over the rounds of one way's rate by another's. */
  share(name: string, of: string): number {
    const whole = this.#rates.get(of) ?? []
    const rates = this.#rates.get(name) ?? []
    return median(rates.map((rate, i) => rate.perSecond / (whole[i]?.perSecond ?? Number.NaN)))
  }
}

/** Rules of the shipped agent that stay when it has ended. */
export async function program(place: Namespace, mode: AgentMode, size: Size): Promise<void> {
  const manifests = new Manifests(size)
  try {
    const options = { ...mode, flags: ['-v', '2'] }
    const agent = new AgentRun(place, ['--manifests', manifests.folder], options)
    await agent.inForce()
    await agent.stop()
  } finally {
    manifests.remove()
  }
}

/** Runs `use` with a function that opens places; they end with it. */
export async function withPlaces<T>(use: (open: () => Promise<Namespace>) => Promise<T>): Promise<T> {
  const places: Namespace[] = []
  try {
    return await use(async () => {
      const place = await openPlace()
      places.push(place)
      return place
    })
  } finally {
    for (const place of places) await place.close()
  }
}

async function rateOf({ place, address, port }: Way, connect: string): Promise<Rate> {
  const output = await place.must(connect, 'rate', address, String(port), String(connectionsPerRound))
  return Value.Parse(Rate, JSON.parse(output))
}

function medianRate(rates: readonly Rate[]): Rate {
  return {
    perSecond: median(rates.map(({ perSecond }) => perSecond)),
    p50Us: median(rates.map(({ p50Us }) => p50Us)),
    p99Us: median(rates.map(({ p99Us }) => p99Us)),
  }
}
