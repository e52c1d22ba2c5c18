// The memory of the process, its OOM score, and the warnings under resource pressure.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setOomScore, watchResourcePressure, releaseMemory } from '../../../src/process/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'
import { systemClock } from '../../../src/clock.js'

function set(path: string): { readonly clock: ManualClock; readonly log: MemoryLog } {
  const [clock, log] = [new ManualClock(), new MemoryLog()]
  setOomScore({ score: -999, path, clock, log })
  return { clock, log }
}

function noLook(): void {
  assert.fail('watchResourcePressure scheduled no look')
}

/** Log lines after looks with these delays and used fractions of the heap. */
function linesOf(
  looks: readonly { readonly delayMs?: number; readonly share?: number }[],
  looked: (delayMs: number) => void = () => undefined,
): readonly string[] {
  const log = new MemoryLog()
  let [now, share] = [0, 0]
  let look = noLook
  watchResourcePressure({
    clock: {
      every: (periodMs, run) => {
        look = () => {
          now += periodMs
          run()
        }
        return () => undefined
      },
      now: () => now,
    },
    heap: () => ({ used: share * 2 ** 30, limit: 2 ** 30 }),
    log,
    looked,
  })
  for (const { delayMs = 0, share: next = 0.5 } of looks) {
    now += delayMs
    share = next
    look()
  }
  return log.lines.map(({ level, message, fields }) => `${level} ${message} ${JSON.stringify(fields)}`)
}

describe('F-106 the OOM score', () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-oom-'))
  })
  after(() => rmSync(folder, { recursive: true }))

  it('is written', () => {
    const path = join(folder, 'score')
    writeFileSync(path, '0')
    const { log } = set(path)
    assert.equal(readFileSync(path, 'utf8'), '-999')
    assert.deepEqual(log.lines, [])
  })

  it('is retried once after 100 ms; then a debug line reports the failure', async () => {
    const { clock, log } = set(join(folder, 'nothing', 'score'))
    assert.deepEqual([log.lines.length, clock.pending], [0, 1])
    await clock.advance(100)
    assert.deepEqual(
      log.lines.map(({ level, message }) => [level, message]),
      [['debug', 'OOM score cannot be set']],
    )
    assert.equal(clock.pending, 0)
  })

  it('is written if the second attempt succeeds', async () => {
    const { clock, log } = set(join(folder, 'late', 'score'))
    mkdirSync(join(folder, 'late'))
    await clock.advance(100)
    assert.equal(readFileSync(join(folder, 'late', 'score'), 'utf8'), '-999')
    assert.deepEqual(log.lines, [])
  })
})

describe('resource pressure', () => {
  const quiet = Array.from({ length: 60 }, () => ({}))
  const stood = /^warn .*: the event loop was blocked for over a second: .*"delayMs":1001/u
  const over = /^info Agent is no longer under resource pressure/u
  const full = /^warn .*: the heap is nearly full: .*--max-old-space-size.*"usedMiB":973,"limitMiB":1024/u
  const cases: readonly {
    readonly name: string
    readonly looks: Parameters<typeof linesOf>[0]
    readonly expected: readonly RegExp[]
  }[] = [
    { name: 'is not logged below the limits', looks: [{ delayMs: 1000 }, {}, { share: 0.9 }], expected: [] },
    {
      name: 'is logged once for a blocked event loop',
      looks: [{ delayMs: 1001 }, {}, { delayMs: 5000 }],
      expected: [stood],
    },
    {
      name: 'ends for the event loop after a minute without delays',
      looks: [{ delayMs: 1001 }, ...quiet, ...quiet],
      expected: [stood, over],
    },
    {
      name: 'is logged once for a nearly full heap',
      looks: [{ share: 0.95 }, { share: 0.8 }, { share: 0.95 }],
      expected: [full],
    },
    {
      name: 'ends for the heap when it has room again',
      looks: [{ share: 0.95 }, {}, {}],
      expected: [full, over],
    },
  ]
  for (const { name, looks, expected } of cases) {
    it(name, () => {
      const lines = linesOf(looks)
      assert.equal(lines.length, expected.length, lines.join('\n'))
      for (const [i, pattern] of expected.entries()) assert.match(lines[i] ?? '', pattern)
    })
  }

  it('tells each delay', () => {
    const delays: number[] = []
    linesOf([{ delayMs: 7 }, {}], (delayMs) => delays.push(delayMs))
    assert.deepEqual(delays, [7, 0])
  })
})

it(
  'releaseMemory() collects garbage, keeps referenced objects, and can run again',
  { timeout: 20_000 },
  async () => {
    const kept = { name: 'kept' }
    const needed = new WeakRef(kept)
    const garbage = new WeakRef({ name: 'garbage' })
    await releaseMemory(systemClock)
    assert.equal(garbage.deref(), undefined)
    assert.equal(needed.deref(), kept)
    // A second session opens only if the first one has ended.
    await releaseMemory(systemClock)
  },
)
