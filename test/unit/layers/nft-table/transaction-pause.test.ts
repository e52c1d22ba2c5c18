import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { TransactionPause, transactionPauseMs } from '../../../../src/layers/nft-table/index.js'
import { ManualClock } from '../../../support/manual-clock.js'

/** A run would begin when the time of the pause is over, and not before. */
async function assertPauses(pause: TransactionPause, clock: ManualClock): Promise<void> {
  const next = begin(pause)
  await clock.advance(transactionPauseMs - 1)
  assert.equal(next(), false)
  await clock.advance(1)
  assert.equal(next(), true)
}

/** Begins a run. The result tells whether it has begun. */
function begin(pause: TransactionPause): () => boolean {
  let hasBegun = false
  void pause.begin().then(() => (hasBegun = true))
  return () => hasBegun
}

describe('the pause between transactions', () => {
  it('delays no first run, and the next one until the time after its transactions is over', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    pause.end({ hasWritten: true, isUnfinished: false })
    await assertPauses(pause, clock)
  })

  it('delays no run after one without a transaction', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    pause.end({ hasWritten: false, isUnfinished: false })
    const next = begin(pause)
    await clock.advance(0)
    assert.equal(next(), true)
  })

  it('delays no run that begins while another one is in progress', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    await pause.begin()
    pause.end({ hasWritten: true, isUnfinished: false })
    const third = begin(pause)
    await clock.advance(0)
    assert.equal(third(), true)
  })

  it('lets the runs of both families begin together', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    pause.end({ hasWritten: true, isUnfinished: false })
    const runs = [begin(pause), begin(pause)]
    await clock.advance(transactionPauseMs)
    assert.deepEqual(
      runs.map((hasBegun) => hasBegun()),
      [true, true],
    )
  })

  it('delays no run that continues the work of the last one, until the series has gone on for as long as the pause', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    for (let run = 1; run <= 5; run++) {
      const next = begin(pause)
      await clock.advance(0)
      assert.equal(next(), true)
      await clock.advance(transactionPauseMs / 5)
      pause.end({ hasWritten: true, isUnfinished: true })
    }
    await assertPauses(pause, clock)
  })

  it('follows a series whose last run made no transaction', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    pause.end({ hasWritten: true, isUnfinished: true })
    await pause.begin()
    pause.end({ hasWritten: false, isUnfinished: false })
    await assertPauses(pause, clock)
  })

  it('begins when the runs of both families have ended', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    await pause.begin()
    pause.end({ hasWritten: true, isUnfinished: false })
    await clock.advance(transactionPauseMs)
    pause.end({ hasWritten: false, isUnfinished: false })
    await assertPauses(pause, clock)
  })

  it('delays no run of a stop', async () => {
    const clock = new ManualClock()
    const pause = new TransactionPause(clock)
    await pause.begin()
    pause.end({ hasWritten: true, isUnfinished: false })
    const next = begin(pause)
    pause.hurry()
    await clock.advance(0)
    assert.equal(next(), true)
  })
})
