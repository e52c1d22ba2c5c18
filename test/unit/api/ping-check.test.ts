import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { PingCheck } from '../../../src/api/transport/ping-check.js'
import { ManualClock } from '../../support/manual-clock.js'

let clock: ManualClock
let received: number
let isNeeded: boolean
/** The callbacks of the PINGs that were sent. */
let sent: ((error: Error | null) => void)[]
let events: string[]

beforeEach(() => {
  clock = new ManualClock()
  received = 0
  isNeeded = true
  sent = []
  events = []
})

function open(spread = 0): PingCheck {
  return new PingCheck({
    clock,
    spread,
    ping: (done) => sent.push(done),
    received: () => received,
    isNeeded: () => isNeeded,
    alive: () => events.push('alive'),
    lost: (problem) => events.push(problem),
  })
}

describe('PingCheck', () => {
  const lost = 'no answer to a PING within 15 s'

  for (const { spread, atMs } of [
    { spread: 0, atMs: 20_000 },
    { spread: 0.9999, atMs: 27_999 },
  ]) {
    it(`asks after 20 to 28 s, and again as long after the answer (spread ${spread})`, async () => {
      open(spread)
      await clock.advance(atMs - 1)
      assert.equal(sent.length, 0)
      await clock.advance(1)
      assert.equal(sent.length, 1)
      sent[0]?.(null)
      await clock.advance(atMs)
      assert.equal(sent.length, 2)
      assert.deepEqual(events, ['alive'])
    })
  }

  it('finds a connection lost whose PING has no answer for 15 s, and ends', async () => {
    open()
    await clock.advance(34_999)
    assert.deepEqual(events, [])
    await clock.advance(1)
    assert.deepEqual(events, [lost])
    assert.equal(clock.pending, 0)
  })

  it('does not find a connection lost while bytes come, such as of a long list', async () => {
    open()
    await clock.advance(20_000)
    received++
    await clock.advance(15_000)
    assert.deepEqual(events, [])
    await clock.advance(20_000)
    assert.equal(sent.length, 2)
    await clock.advance(15_000)
    assert.deepEqual(events, [lost])
  })

  it('takes an answer to an earlier PING for a sign of life, too', async () => {
    open()
    await clock.advance(20_000)
    received++
    await clock.advance(35_000)
    sent[0]?.(null)
    await clock.advance(15_000)
    assert.deepEqual(events, ['alive'])
  })

  it('asks at once on demand, but not twice', async () => {
    const check = open()
    check.ask()
    check.ask()
    assert.equal(sent.length, 1)
    await clock.advance(15_000)
    assert.deepEqual(events, [lost])
  })

  it('sends no PING that is not needed, and ends', async () => {
    open()
    isNeeded = false
    await clock.advance(20_000)
    assert.equal(sent.length, 0)
    assert.equal(clock.pending, 0)
  })

  it('does nothing after it was stopped', async () => {
    const check = open()
    check.ask()
    check.stop()
    sent[0]?.(null)
    check.ask()
    await clock.advance(100_000)
    assert.deepEqual(events, [])
    assert.equal(sent.length, 1)
  })

  it('leaves the end of a connection to others: its PING gets an error', async () => {
    open()
    await clock.advance(20_000)
    sent[0]?.(new Error('canceled'))
    assert.deepEqual(events, [])
  })
})
