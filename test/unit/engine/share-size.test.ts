import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ShareSize } from '../../../src/engine/testing.js'

it('a share comes to the size that takes the asked time, and at most doubles or halves at once', () => {
  const size = new ShareSize(20)
  const first = size.units
  size.note(1)
  assert.equal(size.units, 2 * first)
  size.note(1000)
  assert.equal(size.units, first)
  // 0.01 ms for each unit.
  for (let i = 0; i < 10; i++) size.note(size.units * 0.01)
  assert.equal(size.units, 2000)
})

it('a share has bounds, and stays as it is where the clock shows no time', () => {
  const size = new ShareSize(20)
  const first = size.units
  size.note(0)
  assert.equal(size.units, first)
  for (let i = 0; i < 20; i++) size.note(0.001)
  assert.equal(size.units, 1_048_576)
  for (let i = 0; i < 20; i++) size.note(60_000)
  assert.equal(size.units, 1024)
})
