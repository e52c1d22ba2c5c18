import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ObjectEvent } from '../../../src/source/index.js'
import { Inbox } from '../../../src/engine/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { remove, service, set } from '../../support/objects.js'

const event = (name: string): ObjectEvent => set(service(name, '10.96.0.1'))

it('delivers events in order and in turns: earlier, concurrent and later ones', async () => {
  const taken: ObjectEvent[][] = []
  const pauses: (() => void)[] = []
  const pause = async (): Promise<void> => await new Promise((resolve) => pauses.push(resolve))
  const inbox = new Inbox({ now: () => 0, pause })
  const all = ['a', 'b', 'c', 'd'].map(event)
  const [a, b, c, d] = all.map((one) => [one])
  inbox.deliver(a ?? [])
  inbox.deliver(b ?? [])
  const opened = inbox.open((events) => taken.push([...events]))
  assert.deepEqual(taken, [a])
  inbox.deliver(c ?? [])
  assert.deepEqual(taken, [a])
  for (let turn = 0; turn < 3; turn++) {
    pauses.shift()?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await opened
  assert.deepEqual(taken, [a, b, c])
  inbox.deliver(d ?? [])
  assert.deepEqual(taken, [a, b, c, d])
})

it('delivers listed and synced after all objects from before the opening, with the time since the first of them', async () => {
  const clock = new ManualClock()
  const taken: (readonly [readonly ObjectEvent[], number])[] = []
  const inbox = new Inbox(clock)
  inbox.deliver([event('a'), { type: 'listed' }])
  await clock.advance(40_000)
  inbox.deliver([{ type: 'synced' }])
  inbox.deliver([event('b')])
  await inbox.open((events, waitedMs) => taken.push([events, waitedMs]))
  inbox.deliver([{ type: 'synced' }])
  assert.deepEqual(taken, [
    [[event('a')], 0],
    [[event('b')], 0],
    [[{ type: 'listed' }, { type: 'synced' }], 40_000],
    [[{ type: 'synced' }], 0],
  ])
})

/** The events that an agent gets when it is built after these batches. */
async function openedAfter(...batches: readonly (readonly ObjectEvent[])[]): Promise<readonly ObjectEvent[]> {
  const inbox = new Inbox(new ManualClock())
  for (const batch of batches) inbox.deliver(batch)
  const taken: ObjectEvent[] = []
  await inbox.open((events) => taken.push(...events))
  return taken
}

describe('the newest change of an object before the opening', () => {
  const [a, b, newA] = [event('a'), event('b'), set(service('a', '10.96.0.2'))]
  const gone = remove('Service', 'a')
  const connected = { type: 'connected', address: '192.0.2.1', port: 6443 } as const

  const cases: readonly (readonly [string, readonly (readonly ObjectEvent[])[], readonly ObjectEvent[]])[] = [
    ['takes the place of the first one', [[a, b], [newA]], [newA, b]],
    ['takes it also in one batch', [[a, b, newA]], [newA, b]],
    ['is the only one of many', [...Array.from({ length: 1000 }, () => [a]), [newA]], [newA]],
    ['may be a deletion', [[a, b], [newA], [gone]], [gone, b]],
    ['may come after a deletion', [[a, b], [gone], [newA]], [newA, b]],
    ['is that of one kind alone', [[a], [remove('EndpointSlice', 'a')]], [a, remove('EndpointSlice', 'a')]],
    [
      'leaves other events where they are',
      [
        [a, connected],
        [b, connected, newA],
      ],
      [newA, connected, b, connected],
    ],
  ]
  for (const [name, batches, expected] of cases)
    it(name, async () => assert.deepEqual(await openedAfter(...batches), expected))

  it('comes after the first one if that is delivered already', async () => {
    const taken: ObjectEvent[] = []
    const pauses: (() => void)[] = []
    const inbox = new Inbox({
      now: () => 0,
      pause: async () => await new Promise((resolve) => pauses.push(resolve)),
    })
    inbox.deliver([a])
    const opened = inbox.open((events) => taken.push(...events))
    inbox.deliver([newA])
    inbox.deliver([gone])
    for (let turn = 0; turn < 2; turn++) {
      pauses.shift()?.()
      await new Promise((resolve) => setImmediate(resolve))
    }
    await opened
    assert.deepEqual(taken, [a, gone])
  })
})
