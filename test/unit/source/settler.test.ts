import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { systemClock } from '../../../src/clock.js'
import { Settler } from '../../../src/source/manifests/settler.js'

describe('Settler', () => {
  let now = 0
  let due: { at: number; run: () => void } | undefined
  let settledAt: number[] = []
  let settler: Settler

  /** Lets time pass to `to` and runs the timer when it is due. */
  function passTo(to: number): void {
    while (due !== undefined && due.at <= to) {
      const { at, run } = due
      due = undefined
      now = at
      run()
    }
    now = to
  }

  beforeEach(() => {
    now = 0
    due = undefined
    settledAt = []
    const schedule = (delayMs: number, run: () => void) => {
      due = { at: now + delayMs, run }
      return () => {
        due = undefined
      }
    }
    settler = new Settler({ ...systemClock, now: () => now, schedule }, () => settledAt.push(now))
  })

  it('settles 10 ms after a single touch', () => {
    settler.touch()
    passTo(100)
    assert.deepEqual(settledAt, [10])
  })

  it('waits for 10 ms of silence', () => {
    for (const at of [0, 8, 15]) {
      passTo(at)
      settler.touch()
    }
    passTo(100)
    assert.deepEqual(settledAt, [25])
  })

  it('waits for 50 ms at most when touches never end', () => {
    for (let at = 0; at <= 60; at += 5) {
      passTo(at)
      settler.touch()
    }
    assert.deepEqual(settledAt, [50])
  })

  it('does nothing after cancel', () => {
    settler.touch()
    settler.cancel()
    passTo(100)
    assert.deepEqual(settledAt, [])
  })
})
