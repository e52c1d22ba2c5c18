import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { on } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { systemClock, type Clock } from '../../../src/clock.js'
import { readConfigFile, watchConfigFile, writeConfigFile } from '../../../src/config/index.js'

let folder = ''
let file = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-config-'))
  file = join(folder, 'config.yaml')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('readConfigFile', () => {
  it('returns the bytes', () => {
    writeFileSync(file, 'abc')
    assert.deepEqual(readConfigFile(file), Buffer.from('abc'))
  })

  const wrong: [string, () => string, RegExp][] = [
    ['no file', () => file, /cannot be read: it does not exist \(ENOENT\)$/u],
    ['a folder', () => folder, /cannot be read: it is a folder \(EISDIR\)$/u],
    ['what never ends', () => '/dev/zero', /^\/dev\/zero: must be at most 1048576 bytes$/u],
  ]
  for (const [name, path, message] of wrong) {
    it(`refuses ${name}`, () =>
      assert.throws(() => readConfigFile(path()), { name: 'ConfigError', path: path(), message }))
  }
})

describe('writeConfigFile', () => {
  it('writes a new file, replaces one, and leaves nothing else', () => {
    writeConfigFile(file, 'a')
    writeConfigFile(file, 'b')
    assert.equal(readFileSync(file, 'utf8'), 'b')
    assert.deepEqual(readdirSync(folder), ['config.yaml'])
  })

  it('writes to the target of a link', () => {
    symlinkSync('config.yaml', join(folder, 'link'))
    writeFileSync(file, 'a')
    writeConfigFile(join(folder, 'link'), 'b')
    assert.equal(readFileSync(file, 'utf8'), 'b')
  })

  const wrong: [string, () => string, RegExp][] = [
    ['a full disk', () => '/dev/full', /^\/dev\/full: cannot be written: the disk is full \(ENOSPC\)$/u],
    ['a folder', () => folder, /cannot be written: it is a folder \(EISDIR\)$/u],
    ['no folder', () => join(folder, 'x', 'y'), /cannot be written: it does not exist \(ENOENT\)$/u],
    ['what is no folder', () => join('/dev/null', 'y'), /cannot be written: .* no folder \(ENOTDIR\)$/u],
  ]
  for (const [name, path, message] of wrong) {
    it(`refuses ${name}`, () =>
      assert.throws(() => writeConfigFile(path(), 'a'), { name: 'ConfigError', path: path(), message }))
  }
})

/**
 * A watch of `file`. Its scheduled looks run only in `settle()`. libuv reads the events of all watchers of a process from one inotify
 * queue, in order, so the event of the test's marker comes after all earlier events.
 */
class Watching {
  readonly #watcher = watch(folder)
  readonly #stop = new AbortController()
  #looks: (() => void)[] = []
  #markers = 0
  /** Number of looks that the watch has scheduled. */
  scheduled = 0
  /** The message of the error that ended the watch; undefined: it continues. */
  end: string | undefined

  constructor(bytes: Uint8Array) {
    const schedule: Clock['schedule'] = (_delayMs, wake) => {
      this.scheduled++
      this.#looks.push(wake)
      return () => undefined
    }
    watchConfigFile({ path: file, bytes }, { signal: this.#stop.signal, clock: { schedule } }).catch(
      (error: unknown) => {
        this.end = error instanceof Error ? error.message : String(error)
      },
    )
  }

  /** Lets the watch see all events so far, and runs all its looks. */
  async settle(): Promise<void> {
    const marker = `marker-${++this.#markers}`
    const seen = this.#seen(marker)
    writeFileSync(join(folder, marker), '')
    await seen
    for (let look = this.#looks.shift(); look !== undefined; look = this.#looks.shift()) look()
    await setImmediate()
  }

  close(): void {
    this.#stop.abort()
    this.#watcher.close()
  }

  async #seen(marker: string): Promise<void> {
    for await (const [, name] of on(this.#watcher, 'change')) if (name === marker) return
  }
}

const volume = (): void => {
  mkdirSync(join(folder, '..1'))
  writeFileSync(join(folder, '..1', 'config.yaml'), 'a')
  symlinkSync('..1', join(folder, '..data'))
  symlinkSync('..data/config.yaml', file)
}
const swap = (content: string): void => {
  mkdirSync(join(folder, '..2'))
  writeFileSync(join(folder, '..2', 'config.yaml'), content)
  symlinkSync('..2', join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  rmSync(join(folder, '..1'), { recursive: true })
}
const plain = (): void => writeFileSync(file, 'a')

describe('watchConfigFile', () => {
  let watching: Watching | undefined
  afterEach(() => watching?.close())

  const updated = /config\.yaml: content of the proxy server's configuration file was updated$/u

  const cases: readonly {
    readonly name: string
    readonly before: () => void
    readonly change: () => void
    readonly ends: boolean
  }[] = [
    { name: 'a write', before: plain, change: () => writeFileSync(file, 'b'), ends: true },
    {
      name: 'a rename over it',
      before: plain,
      change: () => {
        writeFileSync(join(folder, 'new'), 'b')
        renameSync(join(folder, 'new'), file)
      },
      ends: true,
    },
    {
      name: 'a removal and a new file with other content',
      before: plain,
      change: () => {
        rmSync(file)
        writeFileSync(file, 'b')
      },
      ends: true,
    },
    { name: 'Q-11 the swap of a ConfigMap', before: volume, change: () => swap('b'), ends: true },
    {
      name: 'the swap of a ConfigMap whose content is the same',
      before: volume,
      change: () => swap('a'),
      ends: false,
    },
    {
      name: 'a write behind a link to another folder',
      before: () => {
        mkdirSync(join(folder, 'real'))
        writeFileSync(join(folder, 'real', 'x'), 'a')
        symlinkSync(join(folder, 'real', 'x'), file)
      },
      change: () => writeFileSync(join(folder, 'real', 'x'), 'b'),
      ends: true,
    },
    {
      name: 'a write of the same content',
      before: plain,
      change: () => writeFileSync(file, 'a'),
      ends: false,
    },
    { name: 'a removal', before: plain, change: () => rmSync(file), ends: false },
    { name: 'a truncation to nothing', before: plain, change: () => writeFileSync(file, ''), ends: false },
    { name: 'a new modification time', before: plain, change: () => utimesSync(file, 1, 1), ends: false },
    {
      name: 'a new file beside it',
      before: plain,
      change: () => writeFileSync(`${file}2`, 'b'),
      ends: false,
    },
  ]
  for (const { name, before, change, ends } of cases) {
    it(
      ends ? `rejects after ${name}` : `takes no notice of ${name}, and rejects after the next write`,
      async () => {
        before()
        watching = new Watching(readConfigFile(file))
        change()
        await watching.settle()
        if (!ends) {
          assert.equal(watching.end, undefined)
          writeFileSync(file, 'b')
          await watching.settle()
        }
        assert.match(watching.end ?? '', updated)
      },
    )
  }

  it('does not watch a pipe, which can be read only once', async () => {
    execFileSync('mkfifo', [file])
    watching = new Watching(Buffer.from('a'))
    rmSync(file)
    writeFileSync(file, 'b')
    await watching.settle()
    assert.deepEqual([watching.end, watching.scheduled], [undefined, 0])
  })

  it('sees a change from before the watch', async () => {
    writeFileSync(file, 'b')
    const watched = { path: file, bytes: Buffer.from('a') }
    const options = { signal: new AbortController().signal, clock: systemClock }
    await assert.rejects(watchConfigFile(watched, options), { name: 'ConfigError', message: updated })
  })
})
