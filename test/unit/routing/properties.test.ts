import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { IpFamily } from '../../../src/address.js'
import { Tracker, type HealthCheck } from '../../../src/model/index.js'
import { route, type Route } from '../../../src/routing/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { anyHistory, finalObjects } from '../../support/worlds.js'

const node = { name: 'here', zone: 'a' }

/** What is decided of the world, kept up event by event as a pipeline does. */
class Decisions {
  readonly routes = new Map<string, Route>()
  readonly problems = new Map<string, readonly string[]>()
  readonly #tracker: Tracker

  constructor(family: IpFamily) {
    this.#tracker = new Tracker(family, (object, found) => {
      if (found === undefined || found.length === 0) this.problems.delete(object)
      else this.problems.set(object, found)
    })
  }

  get healthChecks(): ReadonlyMap<string, HealthCheck> {
    return this.#tracker.healthChecks(node.name)
  }

  apply(events: readonly ObjectEvent[]): this {
    for (const event of events) this.#tracker.apply(event)
    for (const key of this.#tracker.take()) {
      const port = this.#tracker.servicePort(key)
      if (port === undefined) this.routes.delete(key)
      else this.routes.set(key, route(port, this.#tracker.endpoints(port), node))
    }
    return this
  }
}

function assertSame(a: Decisions, b: Decisions): void {
  assert.deepEqual(sorted(a.routes), sorted(b.routes))
  assert.deepEqual(sorted(a.healthChecks), sorted(b.healthChecks))
  assert.deepEqual(sorted(a.problems), sorted(b.problems))
}

function sorted<T>(map: ReadonlyMap<string, T>): readonly (readonly [string, T])[] {
  return [...map].toSorted(([a], [b]) => (a < b ? -1 : 1))
}

const family = fc.constantFrom<IpFamily>('ipv4', 'ipv6')

describe('properties of routes', () => {
  it('step by step leads where all at once leads, health checks and problems too', () => {
    fc.assert(
      fc.property(anyHistory, family, (history, of) => {
        const stepwise = new Decisions(of)
        for (const [i, events] of history.entries()) {
          const full = new Decisions(of).apply(finalObjects(history.slice(0, i + 1)))
          assertSame(stepwise.apply(events), full)
        }
      }),
      { numRuns: 300 },
    )
  })

  it('the order in which objects come does not matter', () => {
    const shuffled = anyHistory.chain((history) => {
      const objects = [...finalObjects(history)]
      return fc.tuple(fc.constant(objects), fc.shuffledSubarray(objects, { minLength: objects.length }))
    })
    fc.assert(
      fc.property(shuffled, family, ([objects, others], of) => {
        const stepwise = new Decisions(of)
        for (const event of others) stepwise.apply([event])
        assertSame(stepwise, new Decisions(of).apply(objects))
      }),
      { numRuns: 1000 },
    )
  })

  it('somebody is there when anybody is chosen, and lists are in order and without duplicates', () => {
    fc.assert(
      fc.property(anyHistory, family, (history, of) => {
        for (const decided of new Decisions(of).apply(history.flat()).routes.values()) {
          const { clusterBackends, localBackends, flowBackends } = decided
          assert.ok(decided.hasEndpoints || clusterBackends.length + localBackends.length === 0)
          for (const list of [clusterBackends, localBackends, flowBackends]) {
            const places = list.map(({ address, port }) => `${address} ${port}`)
            assert.deepEqual(places, [...new Set(places)].toSorted())
          }
        }
      }),
      { numRuns: 500 },
    )
  })
})
