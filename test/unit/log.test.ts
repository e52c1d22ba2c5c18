import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StateReporter, levelOfVerbosity, openLog, type AdjustableLog } from '../../src/log.js'

function open(
  format: 'json' | 'text',
  verbosity = 0,
): { readonly log: AdjustableLog; readonly lines: string[] } {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  return { log: openLog({ format, verbosity, destination, now: () => 1_767_225_600_000 }), lines }
}

describe('levelOfVerbosity', () => {
  const cases = [
    [0, 'info'],
    [1, 'info'],
    [2, 'debug'],
    [3, 'debug'],
    [4, 'trace'],
    [9, 'trace'],
  ] as const
  for (const [verbosity, level] of cases) {
    it(`shows ${level} at -v=${verbosity}`, () => assert.equal(levelOfVerbosity(verbosity), level))
  }
})

describe('openLog', () => {
  it('writes one JSON object per line', () => {
    const { log, lines } = open('json')
    log.error('refused', { service: 'default/web', ipFamily: 'IPv4', err: new Error('why') })
    assert.deepEqual(lines, [
      '{"level":"error","ts":1767225600000,"service":"default/web","ipFamily":"IPv4","err":"why","msg":"refused"}\n',
    ])
  })

  it('writes text for people', () => {
    const { log, lines } = open('text')
    log.info('started', { file: 'a b', count: 2 })
    log.warn('hm')
    assert.deepEqual(lines, [
      '2026-01-01T00:00:00.000Z INFO  started file="a b" count=2\n',
      '2026-01-01T00:00:00.000Z WARN  hm\n',
    ])
  })

  it('is silent below its level, and says so beforehand', () => {
    const { log, lines } = open('json', 2)
    log.debug('seen')
    log.trace('not seen')
    assert.equal(lines.length, 1)
    assert.deepEqual([log.writes('debug'), log.writes('trace')], [true, false])
  })

  it('shows more, and less, from the moment it is told to', () => {
    const { log, lines } = open('json')
    log.setVerbosity(4)
    log.trace('seen')
    log.setVerbosity(0)
    log.debug('not seen')
    assert.equal(lines.length, 1)
    assert.equal(log.writes('debug'), false)
  })
})

function report(): {
  readonly reporter: StateReporter
  readonly lines: string[]
  readonly counts: number[]
} {
  const { log, lines } = open('text')
  const counts: number[] = []
  const reporter = new StateReporter({
    log,
    level: 'error',
    trouble: 'not programmed',
    recovery: 'programmed again',
    count: (problems) => counts.push(problems),
  })
  return { reporter, lines, counts }
}

const strip = (lines: readonly string[]): string[] => lines.map((line) => line.slice(25).trimEnd())

describe('StateReporter', () => {
  it('reports each change of state once', () => {
    const { reporter, lines, counts } = report()
    reporter.report('a', undefined)
    reporter.report('a', { text: 'EINVAL', fields: { service: 'default/a' } })
    reporter.report('a', { text: 'EINVAL' })
    reporter.report('a', { text: 'ENOMEM', fields: { service: 'default/a' } })
    reporter.report('a', undefined)
    reporter.report('a', undefined)
    assert.deepEqual(strip(lines), [
      'ERROR not programmed: EINVAL service="default/a"',
      'ERROR not programmed: ENOMEM service="default/a"',
      'INFO  programmed again service="default/a"',
    ])
    assert.deepEqual(counts, [1, 0])
  })

  it('forgets a key without a word', () => {
    const { reporter, lines, counts } = report()
    reporter.report('a', { text: 'EINVAL' })
    reporter.forget('a')
    reporter.forget('a')
    assert.equal(lines.length, 1)
    assert.deepEqual(counts, [1, 0])
    assert.equal(reporter.size, 0)
  })
})
