import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { QuietGap, quietGapMs } from '../../../../src/layers/nft-table/index.js'
import { ManualClock } from '../../../support/manual-clock.js'

/** Begins a run. The result tells whether it has begun. */
function begin(gap: QuietGap): () => boolean {
  let hasBegun = false
  void gap.begin().then(() => (hasBegun = true))
  return () => hasBegun
}

describe('the quiet gap', () => {
  it('delays no first run, and the next one until the time after its transactions is over', async () => {
    const clock = new ManualClock()
    const gap = new QuietGap(clock)
    await gap.begin()
    gap.end({ hasWritten: true })
    const next = begin(gap)
    await clock.advance(quietGapMs - 1)
    assert.equal(next(), false)
    await clock.advance(1)
    assert.equal(next(), true)
  })

  it('delays no run after one without a transaction', async () => {
    const clock = new ManualClock()
    const gap = new QuietGap(clock)
    await gap.begin()
    gap.end({ hasWritten: false })
    const next = begin(gap)
    await clock.advance(0)
    assert.equal(next(), true)
  })

  it('delays no run that begins while another one is in progress', async () => {
    const clock = new ManualClock()
    const gap = new QuietGap(clock)
    await gap.begin()
    await gap.begin()
    gap.end({ hasWritten: true })
    const third = begin(gap)
    await clock.advance(0)
    assert.equal(third(), true)
  })

  it('lets the runs of both families begin together', async () => {
    const clock = new ManualClock()
    const gap = new QuietGap(clock)
    await gap.begin()
    gap.end({ hasWritten: true })
    const runs = [begin(gap), begin(gap)]
    await clock.advance(quietGapMs)
    assert.deepEqual(
      runs.map((hasBegun) => hasBegun()),
      [true, true],
    )
  })

  it('delays no run of a stop', async () => {
    const clock = new ManualClock()
    const gap = new QuietGap(clock)
    await gap.begin()
    gap.end({ hasWritten: true })
    const next = begin(gap)
    gap.hurry()
    await clock.advance(0)
    assert.equal(next(), true)
  })
})
