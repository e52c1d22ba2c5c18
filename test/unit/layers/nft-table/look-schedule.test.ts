import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NftLookSchedule } from '../../../../src/layers/nft-table/look-schedule.js'
import { ManualClock } from '../../../support/manual-clock.js'

/** The looks of a runner that runs when a look is due, by their times in ms. */
async function looksUntil(
  endMs: number,
  happen: (times: NftLookSchedule, nowMs: number) => void = () => {},
): Promise<readonly string[]> {
  const clock = new ManualClock()
  const times = new NftLookSchedule(clock, 30_000)
  const looks: string[] = []
  while (clock.now() < endMs) {
    happen(times, clock.now())
    const look = times.take()
    if (look !== 'none') looks.push(`${clock.now()} ${look}`)
    await clock.advance(Math.min(Math.max(times.nextInMs(), 1), 100))
  }
  return looks
}

describe('the times of looks at a table', () => {
  it('are those of full comparisons, once a sync period', async () => {
    assert.deepEqual(await looksUntil(70_000), ['30000 full', '60000 full'])
  })

  it('a change gets a look at once', async () => {
    const looks = await looksUntil(10_000, (times, nowMs) => {
      if (nowMs === 2000) times.noteChange()
    })
    assert.deepEqual(looks, ['2000 partial'])
  })

  it('changes without end get a look twice a second', async () => {
    const looks = await looksUntil(1600, (times) => times.noteChange())
    assert.deepEqual(looks, ['0 partial', '500 partial', '1000 partial', '1500 partial'])
  })

  it('a full comparison is a look at changes too', async () => {
    const looks = await looksUntil(31_000, (times, nowMs) => {
      if (nowMs === 30_000) times.noteChange()
    })
    assert.deepEqual(looks, ['30000 full'])
  })

  it('the begin and the end of a watch get a full comparison, and the next one comes a period later', async () => {
    const looks = await looksUntil(40_000, (times, nowMs) => {
      if (nowMs === 5000 || nowMs === 6000) times.noteWatch()
    })
    assert.deepEqual(looks, ['5000 full', '6000 full', '36000 full'])
  })

  it('while a kube-proxy writes, looks come once a minute, also full ones; its end gets a full comparison at once', async () => {
    const looks = await looksUntil(229_000, (times, nowMs) => {
      if (nowMs < 200_000) times.noteChange()
      if (nowMs === 10_000) times.setOther('kube-proxy')
      if (nowMs === 200_000) times.setOther('none')
    })
    const later = looks.filter((look) => Number.parseInt(look, 10) > 10_000 && !look.endsWith('flush'))
    assert.deepEqual(later, ['70000 full', '130000 full', '190000 full', '200000 full'])
  })

  it('while another agent writes, looks come every 5 s; its end gets a full comparison at once', async () => {
    const looks = await looksUntil(24_000, (times, nowMs) => {
      if (nowMs < 22_000) times.noteChange()
      if (nowMs === 10_000) times.setOther('agent')
      if (nowMs === 22_000) times.setOther('none')
    })
    const later = looks.filter((look) => Number.parseInt(look, 10) > 10_000)
    assert.deepEqual(
      later.filter((look) => !look.endsWith('flush')),
      ['15000 partial', '20000 partial', '22000 full'],
    )
  })

  // Before, a flush waited 5 s for its repair.
  it('while another agent writes, a change gets a look for a flush at once, and a flush a look at all changes', async () => {
    const looks = await looksUntil(14_000, (times, nowMs) => {
      if (nowMs === 10_000) times.setOther('agent')
      if (nowMs === 11_000 || nowMs === 11_100 || nowMs === 13_000) times.noteChange()
      if (nowMs === 13_000) {
        assert.equal(times.take(), 'flush')
        times.noteFlush()
      }
    })
    assert.deepEqual(looks, ['11000 flush', '11500 flush', '13000 partial'])
  })
})
