import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { systemClock } from '../../../src/clock.js'
import { RetryTimer } from '../../../src/source/manifests/retry-timer.js'

describe('RetryTimer', () => {
  const waits: number[] = []
  let due: (() => void) | undefined
  const schedule = (delayMs: number, run: () => void) => {
    waits.push(delayMs)
    due = run
    return () => {
      due = undefined
    }
  }

  it('waits longer each time, up to ten seconds, and starts anew after success', () => {
    const timer = new RetryTimer({ ...systemClock, schedule }, () => timer.update(true))
    timer.update(true)
    timer.update(true)
    for (let i = 0; i < 8; i++) due?.()
    assert.deepEqual(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000])
    timer.update(false)
    assert.equal(due, undefined)
    timer.update(true)
    assert.equal(waits.at(-1), 100)
  })
})
