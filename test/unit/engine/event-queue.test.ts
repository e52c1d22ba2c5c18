import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { EventQueue } from '../../../src/engine/event-queue.js'
import { type ObjectChange, objectOf } from '../../../src/source/index.js'

function change(name: string): ObjectChange {
  return { type: 'delete', kind: 'Service', key: { namespace: 'default', name } }
}

function names(changes: readonly ObjectChange[]): readonly string[] {
  return changes.map((one) => objectOf(one).replace('Service default/', ''))
}

describe('EventQueue', () => {
  it('gives the oldest changes first, also those that come between, each object once', () => {
    const queue = new EventQueue()
    for (const name of ['a', 'b', 'c']) queue.put(change(name))
    assert.deepEqual(names(queue.take(1)), ['a'])
    for (const name of ['c', 'a', 'd']) queue.put(change(name))
    assert.deepEqual(names(queue.take(2)), ['b', 'c'])
    assert.deepEqual(names(queue.take(9)), ['a', 'd'])
    assert.deepEqual([queue.size, queue.take(1)], [0, []])
    queue.put(change('b'))
    assert.deepEqual(names(queue.take(1)), ['b'])
  })

  // A new iterator passes over the places of deleted entries: 50,000 changes, taken one by one, took 348 ms.
  it('passes over the changes once, however they are taken', () => {
    const queue = new EventQueue()
    for (let i = 0; i < 100; i++) queue.put(change(String(i)))
    const begins = [mock.method(Map.prototype, Symbol.iterator), mock.method(Map.prototype, 'entries')]
    for (let i = 0; i < 100; i++) queue.take(1)
    for (const begin of begins) begin.mock.restore()
    assert.equal(queue.size, 0)
    assert.equal(
      begins.reduce((sum, begin) => sum + begin.mock.callCount(), 0),
      1,
    )
  })
})
