import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RetryQueue } from '../../../src/layers/objects/index.js'
import { BoundedRunner, type BoundedRunnerOptions } from '../../../src/engine/testing.js'
import { ManualClock, settle } from '../../support/manual-clock.js'

/** A bounded runner. The test ends its runs. */
class Bench {
  readonly clock = new ManualClock()
  readonly starts: number[] = []
  readonly crashes: unknown[] = []
  readonly runner: BoundedRunner
  again: number | undefined
  #end: (() => void) | undefined

  constructor(options: Partial<BoundedRunnerOptions> & { readonly isSlow?: boolean } = {}) {
    this.runner = new BoundedRunner({
      clock: this.clock,
      minIntervalMs: 0,
      maxIntervalMs: 30_000,
      onCrash: (error) => this.crashes.push(error),
      run: async () => {
        this.starts.push(this.clock.now())
        if (options.isSlow === true) {
          await new Promise<void>((resolve) => {
            this.#end = resolve
          })
        }
        return this.again
      },
      ...options,
    })
    this.runner.start()
  }

  async endRun(): Promise<void> {
    this.#end?.()
    await settle()
  }
}

async function failIfRun(): Promise<undefined> {
  assert.fail('ran')
}

describe('the bounded runner', () => {
  it('runs at once when idle, and once for all requests of a turn', async () => {
    const bench = new Bench()
    bench.runner.request()
    bench.runner.request()
    await settle()
    assert.deepEqual(bench.starts, [0])
    assert.equal(bench.clock.pending, 1, 'one timer: the next run')
  })

  it('goes on at once while runs leave work, and pauses when that has gone on for the minimum interval', async () => {
    let left = 5
    const bench: Bench = new Bench({
      minIntervalMs: 100,
      run: async () => {
        bench.starts.push(bench.clock.now())
        bench.clock.skip(40)
        left--
        return undefined
      },
      isUnfinished: () => left > 0,
    })
    bench.runner.request()
    await bench.clock.advance(1000)
    assert.deepEqual(bench.starts, [0, 40, 80, 220, 260])
    bench.runner.request()
    await bench.clock.advance(1000)
    assert.equal(bench.starts.length, 6)
  })

  it('lets a small run begin soon in the rest, and the work that is left wait for the end of all rests', async () => {
    let left = 1
    let maySmall = true
    const runs: (readonly [number, boolean])[] = []
    const bench: Bench = new Bench({
      restFactor: 1,
      run: async ({ isResting }) => {
        runs.push([bench.clock.now(), isResting])
        bench.clock.skip(isResting ? 2 : 20)
        if (!isResting) left--
        return undefined
      },
      isUnfinished: () => left > 0,
      mayRunInRest: () => maySmall,
    })
    left = 2
    bench.runner.request()
    await settle()
    bench.runner.request()
    await bench.clock.advance(6)
    bench.runner.request()
    await bench.clock.advance(1)
    // From 20 on, rest until 40; each of the two small runs adds 2 ms.
    await bench.clock.advance(100)
    assert.deepEqual(runs, [
      [0, false],
      [24, true],
      [28, true],
      [44, false],
    ])
    maySmall = false
    bench.runner.request()
    await settle()
    bench.runner.request()
    await bench.clock.advance(100)
    assert.deepEqual(
      runs.slice(4).map(([, isResting]) => isResting),
      [false, false],
    )
  })

  it('combines the requests during a run into the next one', async () => {
    const bench = new Bench({ isSlow: true })
    bench.runner.request()
    await settle()
    for (let i = 0; i < 3; i++) bench.runner.request()
    await settle()
    assert.equal(bench.starts.length, 1)
    await bench.endRun()
    assert.equal(bench.starts.length, 2)
    await bench.endRun()
    assert.equal(bench.starts.length, 2)
  })

  it('counts the minimum interval from the end of a run, and does not delay the first', async () => {
    const bench = new Bench({ minIntervalMs: 1000, isSlow: true })
    bench.runner.request()
    await bench.clock.advance(400)
    bench.runner.request()
    await bench.endRun()
    await bench.clock.advance(999)
    assert.deepEqual(bench.starts, [0])
    await bench.clock.advance(1)
    assert.deepEqual(bench.starts, [0, 1400])
  })

  it('runs without a request after the maximum interval', async () => {
    const bench = new Bench()
    await bench.clock.advance(60_000)
    assert.deepEqual(bench.starts, [30_000, 60_000])
  })

  it('runs again when a run requests it, at the latest after the maximum interval', async () => {
    const bench = new Bench()
    bench.again = 5000
    bench.runner.request()
    await bench.clock.advance(5000)
    assert.deepEqual(bench.starts, [0, 5000])
    bench.again = 90_000
    await bench.clock.advance(35_000)
    assert.deepEqual(bench.starts, [0, 5000, 10_000, 40_000])
  })

  it('pauses for a multiple of the last run, up to a limit, so that frequent requests share runs', async () => {
    for (const [runMs, restMs] of [
      [0, 0],
      [100, 150],
      [5000, 1000],
    ] as const) {
      const bench = new Bench({ restFactor: 1.5, isSlow: true })
      bench.runner.request()
      await bench.clock.advance(runMs)
      bench.runner.request()
      await bench.endRun()
      await bench.clock.advance(restMs - 1)
      assert.equal(bench.starts.length, restMs === 0 ? 2 : 1)
      await bench.clock.advance(1)
      assert.equal(bench.starts.length, 2)
      await bench.endRun()
      await bench.clock.advance(2000)
      bench.runner.request()
      await settle()
      assert.equal(bench.starts.length, 3, 'at once when idle')
    }
  })

  it('survives a run that throws', async () => {
    const bench = new Bench({ run: async () => Promise.reject(new Error('broken')) })
    bench.runner.request()
    await bench.clock.advance(30_000)
    assert.equal(bench.crashes.length, 2)
  })

  it('waits for the run in progress on stop, and starts no other', async () => {
    const bench = new Bench({ isSlow: true })
    bench.runner.request()
    await settle()
    let isStopped = false
    const stopping = bench.runner.stop().then(() => {
      isStopped = true
    })
    await settle()
    assert.equal(isStopped, false)
    await bench.endRun()
    await stopping
    bench.runner.request()
    await bench.clock.advance(90_000)
    assert.deepEqual([bench.starts.length, bench.clock.pending], [1, 0])
  })

  it('does not run before its start, or when stopped in the same turn', async () => {
    const clock = new ManualClock()
    const runner = new BoundedRunner({
      clock,
      run: failIfRun,
      minIntervalMs: 0,
      maxIntervalMs: 1,
      onCrash: () => assert.fail(),
    })
    runner.request()
    await settle()
    runner.start()
    await runner.stop()
    await clock.advance(10)
  })
})

describe('the retry queue', () => {
  it('doubles the delay of each object independently, up to the longest', async () => {
    const clock = new ManualClock()
    const queue = new RetryQueue<string>(clock)
    const delays: (number | undefined)[] = []
    for (let i = 0; i < 7; i++) {
      queue.fail('a')
      delays.push(queue.nextInMs())
      await clock.advance(delays.at(-1) ?? 0)
    }
    assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
    queue.fail('a')
    queue.fail('b')
    assert.equal(queue.nextInMs(), 1000)
    await clock.advance(1000)
    assert.deepEqual(queue.due(), ['b'])
    queue.settle('b')
    queue.settle('a')
    assert.equal(queue.nextInMs(), undefined)
  })

  it('is not delayed by early attempts', async () => {
    const clock = new ManualClock()
    const queue = new RetryQueue<string>(clock)
    queue.fail('a')
    await clock.advance(400)
    queue.fail('a')
    assert.equal(queue.nextInMs(), 600)
  })

  it('holds more keys than a call may have arguments', () => {
    const queue = new RetryQueue<number>(new ManualClock())
    for (let i = 0; i < 200_000; i++) queue.fail(i)
    assert.equal(queue.nextInMs(), 1000)
  })
})
