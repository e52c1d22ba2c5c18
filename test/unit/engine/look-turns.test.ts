import assert from 'node:assert/strict'
import { it } from 'node:test'
import { LookTurns } from '../../../src/engine/testing.js'
import { ManualClock } from '../../support/manual-clock.js'

it('a look comes when no change waits, and after half a second of changes', async () => {
  const clock = new ManualClock()
  const turns = new LookTurns(clock)
  assert.equal(turns.take(false), true)
  assert.equal(turns.take(true), false)
  await clock.advance(300)
  assert.equal(turns.take(true), false)
  assert.equal(turns.take(false), true)
  assert.equal(turns.take(true), false)
  await clock.advance(499)
  assert.equal(turns.take(true), false)
  await clock.advance(1)
  assert.equal(turns.take(true), true)
  assert.equal(turns.take(true), false)
})

it('the next slice of a look comes after a twentieth of a second of changes', async () => {
  const clock = new ManualClock()
  const turns = new LookTurns(clock)
  assert.equal(turns.take(true, true), false)
  await clock.advance(49)
  assert.equal(turns.take(true, true), false)
  await clock.advance(1)
  assert.equal(turns.take(true, true), true)
  assert.equal(turns.take(true, true), false)
})
