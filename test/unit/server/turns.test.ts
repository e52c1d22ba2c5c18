import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Turns } from '../../../src/server/index.js'
import { type TurnsOptions } from '../../../src/server/testing.js'
import { Shares } from '../../../src/server/turns.js'
import { ManualClock } from '../../support/manual-clock.js'

interface Bench {
  readonly clock: ManualClock
  readonly turns: Turns
  /** Sources of the work that has run, in order. */
  readonly ran: string[]
  readonly add: (source: string, count: number) => void
}

function open(options: Omit<TurnsOptions, 'clock'> = {}): Bench {
  const clock = new ManualClock()
  const turns = new Turns({ clock, ...options })
  const ran: string[] = []
  const add = (source: string, count: number): void => {
    for (let i = 0; i < count; i++) turns.enter(source, () => ran.push(source))
  }
  return { clock, turns, ran, add }
}

describe('turns', () => {
  it('go round the sources that wait', async () => {
    const { clock, ran, add } = open()
    add('a', 10)
    for (const source of ['a', 'b', 'c']) add(source, 3)
    ran.splice(0)
    // The share of a is used up: it has one turn in each period.
    await clock.advance(10)
    assert.deepEqual(ran, ['a', 'b', 'c', 'b', 'c', 'b', 'c'])
    await clock.advance(20)
    assert.deepEqual(ran.slice(7), ['a', 'a'])
    assert.equal(clock.pending, 0)
  })

  it('are ten in 10 ms for all sources together', async () => {
    const { clock, ran, add } = open()
    for (let i = 0; i < 25; i++) add(`${i}`, 1)
    assert.equal(ran.length, 10)
    await clock.advance(10)
    assert.equal(ran.length, 20)
    await clock.advance(10)
    assert.deepEqual(
      ran,
      Array.from({ length: 25 }, (_, i) => `${i}`),
    )
  })

  it('are left to others while a source has used up its share', async () => {
    const { clock, ran, add } = open()
    add('a', 20)
    await clock.advance(10)
    add('b', 1)
    assert.equal(ran.at(-1), 'b')
    assert.equal(clock.pending, 1)
  })

  it('are not taken by work that has left', async () => {
    const { clock, turns, ran, add } = open()
    add('a', 10)
    const work = (): void => void ran.push('gone')
    turns.enter('a', work)
    turns.leave('a', work)
    await clock.advance(10)
    assert.equal(ran.length, 10)
    assert.equal(clock.pending, 0)
  })

  it('are one per Service and second for each source, and all at once, if that is more', async () => {
    const { clock, ran, add } = open({ turnsPerSecond: () => 500 })
    add('a', 2000)
    await clock.advance(490)
    assert.equal(ran.length, 500)
    await clock.advance(1510)
    assert.equal(ran.length, 1500)
  })

  it('are all for one source where all clients are one', async () => {
    const { clock, ran, add } = open({ isOneSource: true })
    add('', 100)
    await clock.advance(90)
    assert.equal(ran.length, 100)
  })
})

describe('the shares of sources', () => {
  it('are kept for no longer than they need to become whole', () => {
    const shares = new Shares()
    let most = 0
    // As fast as turns allow it: ten sources in each 10 ms, each a new one.
    for (let nowMs = 0; nowMs < 10_000; nowMs += 10) {
      shares.forgetFull(nowMs)
      for (let i = 0; i < 10; i++) shares.take(`${nowMs}-${i}`, nowMs, 0)
      most = Math.max(most, shares.size)
    }
    assert.equal(most, 10)
  })

  it('are kept for 100 ms after ten turns', () => {
    const shares = new Shares()
    for (let i = 0; i < 10; i++) assert.ok(shares.take('a', 0, 0))
    assert.ok(!shares.take('a', 9, 0))
    shares.forgetFull(99)
    assert.equal(shares.size, 1)
    shares.forgetFull(100)
    assert.equal(shares.size, 0)
  })
})
