import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { ServicePortKey } from '../../../src/model/index.js'
import { DirtyPorts, servicePortKey } from '../../../src/model/testing.js'

function port(service: string, index: number): ServicePortKey {
  return servicePortKey(`ns/${service}`, `p${index}/TCP`)
}

function addAll(dirty: DirtyPorts, service: string, ports: number, endpoints: number): void {
  for (let i = 0; i < ports; i++) dirty.add(port(service, i), endpoints)
}

/** The Services of a share, each with its number of ports. */
function countsOf(share: Iterable<ServicePortKey>): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const key of share) {
    const name = key.slice(3, key.indexOf(':'))
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

describe('the turns of dirty service ports', () => {
  it('give small Services the next share, and a large one a slice of each', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'wide', 100, 9)
    addAll(dirty, 'small', 2, 1)
    assert.deepEqual(countsOf(dirty.takeShare(100)), { small: 2, wide: 10 })
    dirty.add(port('late', 0), 3)
    assert.deepEqual(countsOf(dirty.takeShare(100)), { late: 1, wide: 10 })
    assert.deepEqual(countsOf(dirty.takeAll()), { wide: 80 })
    assert.equal(dirty.serviceCount, 0)
  })

  it('go round among large Services, whose ports go round too', () => {
    const dirty = new DirtyPorts()
    for (const name of ['a', 'b', 'c']) addAll(dirty, name, 3, 99)
    const first = [...dirty.takeShare(100)]
    assert.deepEqual(first, [port('a', 0)])
    dirty.add(port('a', 0), 99)
    const order: ServicePortKey[] = []
    while (dirty.serviceCount > 0) order.push(...dirty.takeShare(100))
    const places = [port('b', 0), port('c', 0), port('a', 1), port('b', 1), port('c', 1), port('a', 2)]
    assert.deepEqual(order.slice(0, 6), places)
    assert.deepEqual(new Set(order.slice(6)), new Set([port('a', 0), port('b', 2), port('c', 2)]))
  })

  it('take a port that is larger than a share as a whole, and no port that was discarded', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'a', 2, 1_000_000)
    dirty.discard(port('a', 0))
    assert.deepEqual([...dirty.takeShare(10)], [port('a', 1)])
    assert.deepEqual([...dirty.takeShare(10)], [])
  })

  it('know since when a port of a Service waits', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'a', 2, 9)
    const before = dirty.generation
    dirty.takeShare(10)
    // The first port changes again; the second one still waits for its first turn.
    dirty.add(port('a', 0), 9)
    assert.ok(dirty.hasSince('ns/a', before))
    dirty.takeShare(10)
    assert.deepEqual([dirty.hasSince('ns/a', before), dirty.has(port('a', 0))], [false, true])
  })

  it('let nothing starve, in any history', () => {
    const anyTurn = fc.record({
      added: fc.array(
        fc.record({
          service: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
          ports: fc.integer({ min: 1, max: 12 }),
          endpoints: fc.integer({ min: 0, max: 40 }),
        }),
        { maxLength: 6 },
      ),
      units: fc.integer({ min: 1, max: 300 }),
    })
    fc.assert(
      fc.property(fc.array(anyTurn, { maxLength: 60 }), (turns) => {
        const dirty = new DirtyPorts()
        /** How many shares each dirty port has waited for. */
        const waited = new Map<ServicePortKey, number>()
        const takeShare = (units: number): void => {
          const share = dirty.takeShare(units)
          assert.equal(share.size > 0, waited.size > 0, 'each share takes a port')
          for (const key of share) assert.ok(waited.delete(key), `${key} was not dirty`)
          for (const [key, shares] of waited) {
            assert.ok(dirty.has(key))
            // Six Services take turns, and the twelve ports of each.
            assert.ok(shares < 6 * 12, `${key} has waited for ${shares} shares`)
            waited.set(key, shares + 1)
          }
        }
        for (const { added, units } of turns) {
          for (const { service, ports, endpoints } of added) {
            addAll(dirty, service, ports, endpoints)
            for (let i = 0; i < ports; i++) waited.set(port(service, i), waited.get(port(service, i)) ?? 0)
          }
          takeShare(units)
        }
        while (waited.size > 0) takeShare(1)
        assert.equal(dirty.serviceCount, 0)
      }),
      { numRuns: 1000 },
    )
  })
})
