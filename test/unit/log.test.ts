import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StateReporter, levelOfVerbosity, openLog, type AdjustableLog } from '../../src/log.js'
import { ManualClock } from '../support/manual-clock.js'

function open(
  format: 'json' | 'text',
  verbosity = 0,
): { readonly log: AdjustableLog; readonly lines: string[] } {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  return {
    log: openLog({ format, verbosity, destination, clock: { unixMs: () => 1_767_225_600_000 } }),
    lines,
  }
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

  for (const format of ['json', 'text'] as const)
    it(`keeps the last 2,000 lines of format ${format}, as they were written`, () => {
      const { log, lines } = open(format)
      for (let line = 0; line < 5000; line++) log.info(`line ${line}`)
      assert.equal(lines.length, 5000)
      assert.deepEqual(log.recentLines?.(), lines.slice(-2000))
    })

  it('keeps the last lines up to 512 KiB', () => {
    const { log, lines } = open('json')
    for (let line = 0; line < 100; line++) log.info('x'.repeat(20_000))
    assert.deepEqual(log.recentLines?.(), lines.slice(-26))
    log.info('y'.repeat(600_000))
    assert.deepEqual(log.recentLines?.(), [])
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

  it('escapes characters in text that end a line or control a terminal', () => {
    const cases = [
      ['a\n2026-01-01T00:00:00.000Z INFO  forged', 'a\\n2026-01-01T00:00:00.000Z INFO  forged'],
      ['\r\u001b[2K\u0000', '\\r\\u001b[2K\\u0000'],
      ['\u007f\u0085\u009b31m', '\\u007f\\u0085\\u009b31m'],
      ['\u2028\u2029', '\\u2028\\u2029'],
      ['\u202e\u2066\u200f\u061c', '\\u202e\\u2066\\u200f\\u061c'],
      ['Ä日本 "\\', 'Ä日本 "\\'],
    ] as const
    for (const [given, shown] of cases) {
      const { log, lines } = open('text')
      log.error(given, { service: given })
      const quoted = shown.replaceAll(/["\\](?!u|n|r)/gu, '\\$&')
      assert.deepEqual(lines, [`2026-01-01T00:00:00.000Z ERROR ${shown} service="${quoted}"\n`])
    }
  })

  it('writes one line of JSON for any name', () => {
    const { log, lines } = open('json')
    log.error('a\nb', { service: 'c\u001b\nd' })
    assert.equal(lines.length, 1)
    assert.doesNotMatch(lines[0]?.trimEnd() ?? '', /\p{Cc}/u)
  })

  it('writes nothing below its level, and writes() shows this', () => {
    const { log, lines } = open('json', 2)
    log.debug('seen')
    log.trace('not seen')
    assert.equal(lines.length, 1)
    assert.deepEqual([log.writes('debug'), log.writes('trace')], [true, false])
  })

  it('changes its verbosity at once', () => {
    const { log, lines } = open('json')
    log.setVerbosity(4)
    log.trace('seen')
    log.setVerbosity(0)
    log.debug('not seen')
    assert.equal(lines.length, 1)
    assert.equal(log.writes('debug'), false)
  })
})

function report(verbosity = 0): {
  readonly reporter: StateReporter
  readonly lines: string[]
  readonly counts: number[]
  readonly clock: ManualClock
} {
  const { log, lines } = open('text', verbosity)
  const clock = new ManualClock()
  const counts: number[] = []
  const reporter = new StateReporter({
    log,
    level: 'error',
    problemLine: 'Network programming failed',
    recovery: 'Network programming recovered',
    count: (problems) => counts.push(problems),
    clock,
  })
  return { reporter, lines, counts, clock }
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
      'ERROR Network programming failed: EINVAL service="default/a"',
      'ERROR Network programming failed: ENOMEM service="default/a"',
      'INFO  Network programming recovered service="default/a"',
    ])
    assert.deepEqual(counts, [1, 0])
  })

  it('summarizes problems and recoveries beyond 20 in 10 s separately', async () => {
    const { reporter, lines, counts, clock } = report()
    const names = Array.from({ length: 5000 }, (_, i) => `s-${i}`)
    for (const name of names) reporter.report(name, { text: name })
    assert.deepEqual(
      strip(lines),
      names.slice(0, 20).map((name) => `ERROR Network programming failed: ${name}`),
    )
    for (const name of names.slice(0, 30)) reporter.report(name, undefined)
    assert.equal(lines.length, 40)
    await clock.advance(10_000)
    const more = 'more within 10 s than the 20 written; -v=2 writes each'
    assert.deepEqual(strip(lines.slice(40)), [
      `ERROR Network programming failed: ${more} count=4980`,
      `INFO  Network programming recovered: ${more} count=10`,
    ])
    assert.equal(counts.at(-1), 4970)
    assert.equal(clock.pending, 0)
    reporter.report('s-4999', undefined)
    assert.deepEqual(strip(lines.slice(42)), ['INFO  Network programming recovered'])
  })

  it('writes each line where debug lines are written', async () => {
    const { reporter, lines } = report(2)
    for (let i = 0; i < 30; i++) reporter.report(`s-${i}`, { text: `${i}` })
    assert.equal(lines.length, 30)
    assert.equal(strip(lines).at(-1), 'DEBUG Network programming failed: 29')
  })

  it('forgets a key without a line', () => {
    const { reporter, lines, counts } = report()
    reporter.report('a', { text: 'EINVAL' })
    reporter.forget('a')
    reporter.forget('a')
    assert.equal(lines.length, 1)
    assert.deepEqual(counts, [1, 0])
    assert.equal(reporter.size, 0)
  })
})
