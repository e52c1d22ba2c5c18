import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { ObjectEvent } from '../../../src/source/index.js'
import { Inbox } from '../../../src/engine/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { service, set } from '../../support/objects.js'

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
