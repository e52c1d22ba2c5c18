import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { IpFamily } from '../../../src/address.js'
import type { ServicePort, HealthCheck } from '../../../src/model/index.js'
import { trackFamily, type TrackedFamily } from '../../support/tracked-family.js'
import { decide, type Route } from '../../../src/routing/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { ip } from '../../support/routes.js'
import { anyHistory, finalObjects, machineAddress } from '../../support/worlds.js'

const node = { name: 'here', zone: 'a' }
const noPlaces = { apiServer: [], agent: [] }
const machine = [ip(machineAddress)]

/** The routes of all objects, updated event by event as in a pipeline. */
class Decisions {
  readonly routes = new Map<string, Route>()
  readonly problems = new Map<string, readonly string[]>()
  readonly #tracker: TrackedFamily

  constructor(family: IpFamily) {
    this.#tracker = trackFamily(family, ({ kind, name }, found) => {
      const object = `${kind} ${name}`
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
      const decided = port && this.#decide(port)
      if (decided === undefined) this.routes.delete(key)
      else this.routes.set(key, decided)
    }
    return this
  }

  #decide(port: ServicePort): Route | undefined {
    const taken = { places: noPlaces, services: this.#tracker }
    return decide(port, this.#tracker.endpoints(port), node, { taken, machine }).route
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
  it('incremental equals full, also for health checks and problems', () => {
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

  it('the order of objects does not matter', () => {
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

  it('a route with backends has endpoints, and its lists are sorted without duplicates', () => {
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
