import assert from 'node:assert/strict'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ConfigError } from '../../../src/errors.js'
import { nodeFileSystem } from '../../../src/source/index.js'
import { systemClock, type Clock } from '../../../src/clock.js'
import { ManifestFolder } from '../../support/manifest-folder.js'

let folder: ManifestFolder

function service(name: string, clusterIP: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: ${clusterIP}, ports: [{port: 80}]}\n`
}

function write(name: string, text: string): void {
  writeFileSync(folder.path(name), text)
}

beforeEach(() => {
  folder = new ManifestFolder()
  mkdirSync(folder.root)
})
afterEach(() => folder.close())

describe('ManifestSource: a file system that fails for a moment', () => {
  const inner = nodeFileSystem
  for (const call of ['read', 'state', 'list'] as const) {
    it(`is synced later, without another event: ${call}`, async () => {
      mkdirSync(folder.path('sub'))
      write('a.yaml', service('a', '10.96.0.1'))
      write('sub/b.yaml', service('b', '10.96.0.2'))
      const failing = folder.path(call === 'list' ? 'sub' : 'a.yaml')
      let failures = 3
      const guard = <T>(path: string, answer: () => T): T => {
        if (path !== failing || failures === 0) return answer()
        failures -= 1
        throw new ConfigError(path, 'cannot be read: too many open files')
      }
      await folder.start({ [call]: (path: string) => guard(path, () => inner[call](path)) })
      assert.equal(folder.batches[0]?.at(-1), 'listed')
      await folder.until(() => folder.batches.length === 2)
      const sets = folder.batches.flat().filter((event) => event.startsWith('+'))
      assert.deepEqual(sets.toSorted(), ['+Service default/a 10.96.0.1', '+Service default/b 10.96.0.2'])
      assert.equal(folder.batches[1]?.at(-1), 'synced')
      assert.deepEqual([failures, folder.errors, folder.log.length], [0, 0, 2])
    })
  }

  it('retries the file when it reads another one', async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    let isFailing = true
    const clock: Clock = {
      ...systemClock,
      schedule: (ms, run) => (ms < 100 ? systemClock.schedule(ms, run) : () => undefined),
    }
    await folder.start(
      {
        read: (path) => {
          if (isFailing) throw new ConfigError(path, 'cannot be read: input/output error')
          return inner.read(path)
        },
        // The pending retry of the start may run before the event of b.yaml. The look for that event ends the problem.
        state: (path) => {
          if (path === folder.path('b.yaml')) isFailing = false
          return inner.state(path)
        },
      },
      clock,
    )
    assert.deepEqual(folder.batches, [['listed']])
    const batch = await folder.after(() => write('b.yaml', service('b', '10.96.0.2')))
    assert.deepEqual(batch.toSorted(), [
      '+Service default/a 10.96.0.1',
      '+Service default/b 10.96.0.2',
      'synced',
    ])
  })
})

describe('ManifestSource: files that move while they are listed', () => {
  const moves = [
    { name: 'after the listing, before the read', call: 'read', when: 'z/a.yaml' },
    { name: 'to a folder that was listed, from one that was not', call: 'list', when: 'z' },
  ] as const
  for (const { name, call, when } of moves) {
    it(`is not synced without the file: ${name}`, async () => {
      mkdirSync(folder.path('b'))
      mkdirSync(folder.path('z'))
      write('z/a.yaml', service('a', '10.96.0.1'))
      let hasMoved = false
      await folder.start({
        // The order of a listing depends on the file system.
        list: (path) => {
          if (call === 'list') move(path)
          return nodeFileSystem.list(path)?.toSorted((a, b) => (a.name < b.name ? -1 : 1))
        },
        read: (path) => {
          if (call === 'read') move(path)
          return nodeFileSystem.read(path)
        },
      })
      function move(path: string): void {
        if (hasMoved || path !== folder.path(when)) return
        hasMoved = true
        renameSync(folder.path('z/a.yaml'), folder.path('b/a.yaml'))
      }
      await folder.until(() => folder.batches.flat().includes('synced'))
      assert.deepEqual(folder.batches.flat(), ['+Service default/a 10.96.0.1', 'synced'])
      assert.deepEqual(folder.log, [])
    })
  }
})

describe('ManifestSource: long work', () => {
  it('yields to the event loop between slow files', async () => {
    for (const name of ['a', 'b', 'c']) write(`${name}.yaml`, service(name, '10.96.0.1'))
    let nowMs = 0
    const turns: number[] = []
    const clock: Clock = {
      ...systemClock,
      // Each read of the clock advances it by a second.
      now: () => (nowMs += 1000),
      schedule: (delayMs, run) => {
        if (delayMs === 0) turns.push(folder.read.length)
        return systemClock.schedule(delayMs, run)
      },
    }
    await folder.start({}, clock)
    // And twice for events after all files are read.
    assert.deepEqual(turns, [0, 1, 2, 3, 3])
  })

  it('refuses a file that takes too long, with advice', async () => {
    const limit = 16 * 1024 * 1024
    write('a.yaml', '#'.repeat(limit + 1))
    write('b.yaml', `${service('b', '10.96.0.1')}#`.padEnd(limit, '#'))
    await folder.start()
    assert.deepEqual(folder.batches, [['+Service default/b 10.96.0.1', 'listed']])
    assert.match(folder.log[0] ?? '', /a\.yaml: must be at most 16777216 bytes, not 16777217: split it$/u)
  })
})
