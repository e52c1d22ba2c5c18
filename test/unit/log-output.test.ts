import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { FileOutput, withoutBlocking } from '../../src/log-output.js'
import { openLog, type AdjustableLog } from '../../src/log.js'

/** A log whose destination has room for some lines. */
class Disk {
  readonly lines: string[] = []
  room = Infinity
  readonly log: AdjustableLog

  constructor(format: 'json' | 'text') {
    this.log = openLog({
      format,
      verbosity: 0,
      destination: { write: (line) => this.#write(line) },
      clock: { unixMs: () => 1_767_225_600_000 },
    })
  }

  #write(line: string): void {
    if (this.room === 0) throw new Error('ENOSPC: no space left on device, write')
    this.room--
    this.lines.push(line.replace(/^\S+ /u, ''))
  }

  get problems(): readonly string[] {
    return [...(this.log.reporters ?? [])].flatMap(({ present }) => present.map(({ line }) => line))
  }
}

describe('a log that cannot be written', () => {
  it('drops lines, shows the problem meanwhile, and tells the number when there is room', () => {
    const disk = new Disk('text')
    disk.log.info('a')
    disk.room = 0
    disk.log.info('b')
    disk.log.info('c')
    assert.deepEqual(disk.problems, ['Log lines are dropped: ENOSPC: no space left on device, write'])
    assert.equal(disk.log.lostLines, 3, 'with the line about the problem')
    disk.room = Infinity
    disk.log.info('d')
    disk.log.info('e')
    assert.deepEqual(disk.problems, [])
    const report =
      'WARN  Log is written again: 3 lines were dropped err="ENOSPC: no space left on device, write"\n'
    assert.deepEqual(disk.lines, ['INFO  a\n', 'INFO  d\n', report, 'INFO  e\n'])
  })

  it('keeps dropped lines for a bug report', () => {
    const disk = new Disk('json')
    disk.room = 0
    disk.log.info('lost')
    assert.match(disk.log.recentLines?.().join('') ?? '', /"msg":"lost"/u)
  })

  it('tells the whole number if the room ends with the first line', () => {
    const disk = new Disk('text')
    disk.room = 0
    disk.log.info('a')
    disk.room = 1
    disk.log.info('b')
    disk.room = Infinity
    disk.log.info('c')
    const [, , report] = disk.lines
    assert.match(report ?? '', new RegExp(`Log is written again: ${disk.log.lostLines} lines`, 'u'))
  })
})

describe('FileOutput', () => {
  it('throws the error of the system', () => {
    const fd = openSync('/dev/full', 'w')
    try {
      assert.throws(() => new FileOutput(fd).write('a\n'), { code: 'ENOSPC' })
    } finally {
      closeSync(fd)
    }
  })

  it('does not wait for ever for a reader that stands still, and ends a cut line', () => {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-log-'))
    const path = join(folder, 'pipe')
    execFileSync('mkfifo', [path])
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const fd = openSync(path, constants.O_WRONLY) // a write to it blocks while the pipe is full
    const own = withoutBlocking(fd)
    try {
      const output = new FileOutput(own, 20)
      const long = `${'x'.repeat(10_000)}\n`
      assert.throws(
        () => {
          for (let line = 0; line < 1000; line++) output.write(long)
        },
        { code: 'EAGAIN' },
      )
      const buffer = Buffer.alloc(1 << 20)
      const before = buffer.toString('latin1', 0, readSync(reader, buffer))
      assert.ok(!before.endsWith('\n'), 'the pipe took a part of the last line')
      output.write('next\n')
      assert.equal(buffer.toString('latin1', 0, readSync(reader, buffer)), '\nnext\n')
    } finally {
      for (const open of [reader, fd, own]) closeSync(open)
      rmSync(folder, { recursive: true })
    }
  })

  it('writes lines', () => {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-log-'))
    const path = join(folder, 'log')
    const fd = openSync(path, 'w')
    try {
      const output = new FileOutput(fd)
      for (const line of ['a\n', 'é\n']) output.write(line)
      assert.equal(readFileSync(path, 'utf8'), 'a\né\n')
    } finally {
      closeSync(fd)
      rmSync(folder, { recursive: true })
    }
  })
})
