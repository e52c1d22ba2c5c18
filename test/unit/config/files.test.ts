import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { readConfigFile, watchConfigFile, writeConfigFile } from '../../../src/config/index.js'

let folder = ''
let file = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-config-'))
  file = join(folder, 'config.yaml')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('readConfigFile', () => {
  it('gives the bytes', () => {
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

  it('writes where a link leads', () => {
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

/** Follows `file` while `change` is made; resolves with the error's message. `ends` false: with nothing, when none came for a while. */
async function follow(change: () => void, ends: boolean): Promise<string> {
  const following = new AbortController()
  const looks: (() => void)[] = []
  let isChanged = false
  // A look that is wanted is made when the change is.
  const after = (_delayMs: number, wake: () => void): void => {
    if (isChanged) setImmediate(wake)
    else looks.push(wake)
  }
  const watched = { path: file, bytes: readConfigFile(file) }
  const news = watchConfigFile(watched, { signal: following.signal, after }).catch((error: unknown) =>
    error instanceof Error ? error.message : String(error),
  )
  change()
  isChanged = true
  for (const look of looks) look()
  // On a slow machine the silence may be too short to show a fault; what is to come is waited for.
  const result = await (ends ? news : Promise.race([news, silence()]))
  following.abort()
  return result
}

async function silence(): Promise<string> {
  return await new Promise((resolve) => {
    setTimeout(resolve, 300, '')
  })
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
      name: 'its return with other content',
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
    { name: 'a write of the same', before: plain, change: () => writeFileSync(file, 'a'), ends: false },
    { name: 'its end', before: plain, change: () => rmSync(file), ends: false },
    { name: 'its emptying', before: plain, change: () => writeFileSync(file, ''), ends: false },
    { name: 'another time of change', before: plain, change: () => utimesSync(file, 1, 1), ends: false },
    {
      name: 'another file beside it',
      before: plain,
      change: () => writeFileSync(`${file}2`, 'b'),
      ends: false,
    },
  ]
  for (const { name, before, change, ends } of cases) {
    it(`${ends ? 'rejects after' : 'takes no notice of'} ${name}`, async () => {
      before()
      assert.match(await follow(change, ends), ends ? updated : /^$/u)
    })
  }

  it('follows no pipe, which would have to be written again', async () => {
    execFileSync('mkfifo', [file])
    const following = new AbortController()
    const options = { signal: following.signal, after: assert.fail }
    const news = watchConfigFile({ path: file, bytes: Buffer.from('a') }, options)
    assert.equal(await Promise.race([news, silence()]), '')
  })

  it('sees what changed before it watched', async () => {
    writeFileSync(file, 'b')
    const watched = { path: file, bytes: Buffer.from('a') }
    const options = { signal: new AbortController().signal, after: () => undefined }
    await assert.rejects(watchConfigFile(watched, options), { name: 'ConfigError', message: updated })
  })
})
