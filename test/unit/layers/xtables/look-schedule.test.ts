import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LookSchedule } from '../../../../src/layers/xtables/look-schedule.js'

const syncPeriodMs = 30_000

class TestClock {
  #nowMs = 0

  now(): number {
    return this.#nowMs
  }

  advance(ms: number): void {
    this.#nowMs += ms
  }
}

/** The looks within this number of seconds, as `second look`. Each look is done as soon as it is due. */
function looksOf(times: LookSchedule, clock: TestClock, seconds: number): readonly string[] {
  const startMs = clock.now()
  const looks: string[] = []
  for (let leftMs = seconds * 1000; ;) {
    const look = times.take()
    if (look !== 'none') looks.push(`${(clock.now() - startMs) / 1000} ${look}`)
    if (look === 'full') times.endComparison()
    const waitMs = Math.min(times.nextInMs(), leftMs)
    clock.advance(waitMs)
    leftMs -= waitMs
    if (leftMs <= 0) return looks
  }
}

describe('LookSchedule', () => {
  it('schedules a cheap look per second and a full one per period without a watch', () => {
    const clock = new TestClock()
    const looks = looksOf(new LookSchedule(clock, syncPeriodMs), clock, 31)
    assert.deepEqual(looks.slice(0, 3), ['0 cheap', '1 cheap', '2 cheap'])
    assert.equal(looks.at(-1), '30 full')
    assert.equal(looks.length, 31)
  })

  it('schedules no cheap looks with a watch, and full ones rarely without changes', () => {
    const clock = new TestClock()
    const times = new LookSchedule(clock, syncPeriodMs)
    times.take()
    times.beginWatch()
    const looks = looksOf(times, clock, 1300)
    assert.deepEqual(
      looks.filter((look) => look.endsWith('full')),
      ['30 full', '90 full', '210 full', '450 full', '750 full', '1050 full'],
    )
    assert.deepEqual(looks.slice(0, 4), ['2 cheap', '30 full', '60 cheap', '90 full'])
    assert.equal(looks.length, 44, 'one per period, and one after the start of the watch')
  })

  it('schedules a look two seconds after a change, and a comparison one period after it', () => {
    const clock = new TestClock()
    const times = new LookSchedule(clock, syncPeriodMs)
    times.beginWatch()
    looksOf(times, clock, 500)
    times.noteChange()
    assert.deepEqual(looksOf(times, clock, 100), ['2 cheap', '30 full', '60 cheap', '90 full'])
    // Continuous changes do not delay the comparison.
    times.noteChange()
    assert.deepEqual(looksOf(times, clock, 20), ['2 cheap'])
    times.noteChange()
    assert.deepEqual(looksOf(times, clock, 15), ['2 cheap', '10 full'])
  })

  it('schedules a look at a watched table every 30 s for any sync period, so that memory returns to the kernel', () => {
    const clock = new TestClock()
    const times = new LookSchedule(clock, 3_600_000)
    times.beginWatch()
    assert.deepEqual(looksOf(times, clock, 70), ['2 cheap', '32 cheap', '62 cheap'])
  })

  it('compares at once after an unlock, and once more for unlocks before and during the pause', () => {
    const clock = new TestClock()
    const times = new LookSchedule(clock, 3_600_000)
    times.beginWatch()
    looksOf(times, clock, 100)
    times.noteUnlock()
    times.noteUnlock()
    assert.equal(times.take(), 'full')
    times.noteUnlock() // while the comparison reads
    clock.advance(80)
    times.endComparison()
    times.noteUnlock()
    assert.deepEqual(
      looksOf(times, clock, 100).filter((look) => look.endsWith('full')),
      ['4 full'],
      '50 times 80 ms later',
    )
    times.noteUnlock()
    assert.deepEqual(looksOf(times, clock, 1), ['0 full'], 'the pause is over')
  })

  it('spends 2 % of the time on comparisons under continuous unlocks', () => {
    const clock = new TestClock()
    const times = new LookSchedule(clock, 3_600_000)
    let comparedMs = 0
    while (clock.now() < 1_000_000) {
      times.noteUnlock()
      if (times.take() === 'full') {
        clock.advance(200)
        comparedMs += 200
        times.endComparison()
      }
      clock.advance(1000)
    }
    assert.ok(comparedMs > 17_000 && comparedMs <= 20_000, `${comparedMs} ms`)
  })

  it('looks at once when the watch reports a change or ends', () => {
    const clock = new TestClock()
    const times = new LookSchedule(clock, syncPeriodMs)
    times.beginWatch()
    looksOf(times, clock, 10)
    times.noteLook()
    assert.deepEqual(looksOf(times, clock, 5), ['0 cheap'])
    times.endWatch()
    assert.deepEqual(looksOf(times, clock, 3), ['0 cheap', '1 cheap', '2 cheap'])
  })
})
