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

function serviceOf(key: ServicePortKey): string {
  return key.slice(3, key.indexOf(':'))
}

/** The Services of a share, each with its number of ports. */
function countsOf(share: Iterable<ServicePortKey>): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const key of share) {
    const name = serviceOf(key)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

describe('the turns of dirty service ports', () => {
  it('give small Services the next share, and a large one a slice of each', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'wide', 100, 9)
    addAll(dirty, 'small', 2, 1)
    assert.deepEqual(countsOf(dirty.takeShare({ units: 100 })), { small: 2, wide: 10 })
    dirty.add(port('late', 0), 3)
    assert.deepEqual(countsOf(dirty.takeShare({ units: 100 })), { late: 1, wide: 10 })
    assert.deepEqual(countsOf(dirty.takeAll()), { wide: 80 })
    assert.equal(dirty.serviceCount, 0)
  })

  it('go round among large Services, whose ports go round too', () => {
    const dirty = new DirtyPorts()
    for (const name of ['a', 'b', 'c']) addAll(dirty, name, 3, 99)
    const first = [...dirty.takeShare({ units: 100 })]
    assert.deepEqual(first, [port('a', 0)])
    dirty.add(port('a', 0), 99)
    const order: ServicePortKey[] = []
    while (dirty.serviceCount > 0) order.push(...dirty.takeShare({ units: 100 }))
    const places = [port('b', 0), port('c', 0), port('a', 1), port('b', 1), port('c', 1), port('a', 2)]
    assert.deepEqual(order.slice(0, 6), places)
    assert.deepEqual(new Set(order.slice(6)), new Set([port('a', 0), port('b', 2), port('c', 2)]))
  })

  it('give a port that takes a frontend the share of the port that had it, within a bound', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'wide', 100, 9)
    // Each port takes the frontend of the next one, and the last one that of the first.
    for (let i = 0; i < 100; i++) dirty.noteGiven(port('wide', i), [`f${i}`])
    dirty.noteTaken(port('wide', 0), ['f50', 'unknown'])
    dirty.noteTaken(port('wide', 50), ['f99'])
    assert.deepEqual(
      [...dirty.takeShare({ units: 10 })],
      [port('wide', 0), port('wide', 50), port('wide', 99)],
    )
    assert.deepEqual([...dirty.takeShare({ units: 20 })], [port('wide', 1), port('wide', 2)])
    dirty.takeAll()
    addAll(dirty, 'wide', 1000, 9)
    for (let i = 0; i < 1000; i++) dirty.noteGiven(port('wide', i), [`f${i}`])
    for (let i = 0; i < 1000; i++) dirty.noteTaken(port('wide', i), [`f${(i + 1) % 1000}`])
    assert.equal(dirty.takeShare({ units: 100 }).size, 10 + 410)
  })

  it('forget the frontends that a port gave when it has had its turn', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'wide', 100, 9)
    dirty.add(port('giver', 0), 1)
    dirty.noteGiven(port('giver', 0), ['f'])
    assert.deepEqual(countsOf(dirty.takeShare({ units: 10, isSmall: true })), { giver: 1 })
    addAll(dirty, 'giver', 10, 9)
    dirty.add(port('taker', 0), 1)
    dirty.noteTaken(port('taker', 0), ['f'])
    assert.deepEqual(countsOf(dirty.takeShare({ units: 10, isSmall: true })), { taker: 1 })
  })

  it('leave out Services with more work when a share is small', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'wide', 100, 9)
    assert.deepEqual(countsOf(dirty.takeShare({ units: 100, isSmall: true })), {})
    addAll(dirty, 'small', 2, 1)
    assert.deepEqual(countsOf(dirty.takeShare({ units: 100, isSmall: true })), { small: 2 })
    assert.deepEqual(countsOf(dirty.takeShare({ units: 100 })), { wide: 10 })
  })

  it('count the endpoints that a port had while it waits', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'wide', 20, 99)
    addAll(dirty, 'wide', 20, 0)
    assert.equal(dirty.takeShare({ units: 1000 }).size, 10)
    dirty.takeAll()
    addAll(dirty, 'wide', 20, 0)
    assert.equal(dirty.takeShare({ units: 1000 }).size, 20)
  })

  it('take a port that is larger than a share as a whole, and no port that was discarded', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'a', 2, 1_000_000)
    dirty.discard(port('a', 0))
    assert.deepEqual([...dirty.takeShare({ units: 10 })], [port('a', 1)])
    assert.deepEqual([...dirty.takeShare({ units: 10 })], [])
  })

  it('know since when a port of a Service waits', () => {
    const dirty = new DirtyPorts()
    addAll(dirty, 'a', 2, 9)
    const before = dirty.generation
    dirty.takeShare({ units: 10 })
    // The first port changes again; the second one still waits for its first turn.
    dirty.add(port('a', 0), 9)
    assert.ok(dirty.hasSince('ns/a', before))
    dirty.takeShare({ units: 10 })
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
        const waiting = new Set<ServicePortKey>()
        /** The Services with dirty ports, the one whose last turn is longest ago first. */
        const turnOrder = new Set<string>()
        const takeShare = (units: number): void => {
          const [next] = turnOrder
          const share = dirty.takeShare({ units })
          const served = new Set([...share].map(serviceOf))
          assert.ok(next === undefined || served.has(next), `it was the turn of ${next}`)
          for (const key of share) assert.ok(waiting.delete(key), `${key} was not dirty`)
          for (const key of waiting) assert.ok(dirty.has(key))
          const left = new Set([...waiting].map(serviceOf))
          for (const service of served) {
            turnOrder.delete(service)
            if (left.has(service)) turnOrder.add(service)
          }
        }
        for (const { added, units } of turns) {
          for (const { service, ports, endpoints } of added) {
            addAll(dirty, service, ports, endpoints)
            for (let i = 0; i < ports; i++) waiting.add(port(service, i))
            turnOrder.add(service)
          }
          takeShare(units)
        }
        while (waiting.size > 0) takeShare(1)
        assert.equal(dirty.serviceCount, 0)
      }),
      { numRuns: 1000 },
    )
  })
})
