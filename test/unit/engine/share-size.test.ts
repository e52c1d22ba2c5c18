import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ShareSize } from '../../../src/engine/testing.js'

it('a share comes to the size that takes the asked time, and at most doubles or halves at once', () => {
  const size = new ShareSize(20)
  const first = size.units
  size.note(1)
  assert.equal(size.units, 2 * first)
  // 0.01 ms for each unit.
  for (let i = 0; i < 40; i++) size.note(size.units * 0.01)
  assert.ok(Math.abs(size.units - 2000) <= 100, String(size.units))
})

it('a share has bounds, and stays as it is where the clock shows no time', () => {
  const size = new ShareSize(20)
  const first = size.units
  size.note(0)
  assert.equal(size.units, first)
  for (let i = 0; i < 20; i++) size.note(size.units * 1e-6)
  assert.equal(size.units, 1_048_576)
  for (let i = 0; i < 40; i++) size.note(size.units)
  assert.equal(size.units, 1024)
})

it('shares of a large change take at most three times as long as the whole, with any cost of a pass by itself', () => {
  const all = 100_000
  for (const [fixedMs, msPerUnit] of [1, 5, 9, 11, 19, 21, 30, 50, 100].flatMap((fixed) =>
    [0.0005, 0.002, 0.01].map((perUnit) => [fixed, perUnit] as const),
  )) {
    const size = new ShareSize(10)
    const whole = fixedMs + all * msPerUnit
    let left = all
    let total = 0
    while (left > 0) {
      const share = Math.min(left, size.units)
      const took = fixedMs + share * msPerUnit
      left -= share
      total += took
      size.note(took)
    }
    // The first shares learn: they cost what is fixed, six times.
    assert.ok(
      total <= 3 * whole + 6 * fixedMs,
      `${fixedMs} ms and ${msPerUnit} ms per unit: ${total} ms, whole: ${whole} ms`,
    )
  }
})
