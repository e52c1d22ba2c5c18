// Issue 18, C9: an absent root folder keeps all objects; an empty one removes them after a grace period.
import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ConfigError } from '../../../src/errors.js'
import { nodeFileSystem } from '../../../src/source/index.js'
import { systemClock, type Clock } from '../../../src/clock.js'
import { ManifestFolder } from '../../support/manifest-folder.js'

let folder: ManifestFolder
/** Ends the grace period of the source. */
let endGrace: () => void
let passedMs: number

const gracePeriodMs = 10_000
const clock: Clock = {
  ...systemClock,
  now: () => systemClock.now() + passedMs,
  schedule: (delayMs, run) => {
    if (delayMs !== gracePeriodMs) return systemClock.schedule(delayMs, run)
    endGrace = run
    return () => (endGrace = () => assert.fail('it does not wait'))
  },
}

function service(name: string, clusterIP: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: ${clusterIP}, ports: [{port: 80}]}\n`
}

function write(name: string, text: string): void {
  writeFileSync(folder.path(name), text)
}

/** Ends the grace period. Returns the delivered events. */
async function endGracePeriod(): Promise<readonly string[]> {
  return await folder.after(() => {
    passedMs += gracePeriodMs
    endGrace()
  })
}

beforeEach(async () => {
  endGrace = () => assert.fail('it does not wait')
  passedMs = 0
  folder = new ManifestFolder()
  mkdirSync(folder.path('sub'), { recursive: true })
  write('a.yaml', service('a', '10.96.0.1'))
  write('sub/b.yaml', service('b', '10.96.0.2'))
})
afterEach(() => folder.close())

const away = () => join(folder.base, 'away')
const base = () => folder.base

const changeB = () => write('sub/b.yaml', service('b', '10.96.0.22'))

const absences: { name: string; leave: () => void; comeBack: () => void }[] = [
  {
    name: 'renamed',
    leave: () => renameSync(folder.root, away()),
    comeBack: () => renameSync(away(), folder.root),
  },
  {
    name: 'with the folder above it',
    leave: () => renameSync(base(), `${base()}-away`),
    comeBack: () => renameSync(`${base()}-away`, base()),
  },
  {
    name: 'a file in its place',
    leave: () => {
      renameSync(folder.root, away())
      writeFileSync(folder.root, '')
    },
    comeBack: () => {
      unlinkSync(folder.root)
      renameSync(away(), folder.root)
    },
  },
]

// Issue 35, B9: the agent ended.
describe('a manifests folder that is absent at the start', () => {
  for (const { name, leave, comeBack } of absences) {
    it(`knows no objects, logs this, and delivers them when it is there: ${name}`, async () => {
      leave()
      await folder.start({}, clock)
      assert.deepEqual(folder.batches, [['listed']])
      assert.match(folder.log.at(-1) ?? '', /: its objects stay in force until it is (?:back|one again)$/u)
      assert.equal(folder.errors, 1)
      passedMs += 3_600_000
      const events = await folder.after(comeBack)
      const services = ['+Service default/a 10.96.0.1', '+Service default/b 10.96.0.2']
      assert.deepEqual(events.slice(0, -1).toSorted(), services)
      assert.equal(events.at(-1), 'synced')
      assert.equal(folder.errors, 0)
    })
  }
})

describe('a manifests folder that is absent', () => {
  for (const { name, leave, comeBack } of absences) {
    it(`keeps its objects, logs this, and delivers only differences when it is back: ${name}`, async () => {
      await folder.start({}, clock)
      folder.batches.length = 0
      const line = await folder.loggedAfter(leave)
      assert.match(line, /: its objects stay in force until it is (?:back|one again)$/u)
      assert.equal(folder.errors, 1)
      passedMs += 3_600_000
      const batch = await folder.after(() => {
        comeBack()
        unlinkSync(folder.path('a.yaml'))
        write('c.yaml', service('c', '10.96.0.3'))
      })
      assert.deepEqual(batch.toSorted(), ['+Service default/c 10.96.0.3', '-Service default/a'])
      assert.deepEqual(folder.batches, [batch])
      assert.equal(folder.errors, 0)
      assert.deepEqual(await folder.after(changeB), ['+Service default/b 10.96.0.22'])
    })
  }

  it('keeps the objects of missing files while a large folder returns file by file', async () => {
    for (let i = 0; i < 1000; i++) write(`s${i}.yaml`, service(`s${i}`, '10.96.1.1'))
    await folder.start({}, clock)
    await folder.loggedAfter(() => renameSync(folder.root, away()))
    const batch = await folder.after(() => {
      renameSync(away(), folder.root)
      write('c.yaml', service('c', '10.96.0.3'))
    })
    assert.deepEqual(batch, ['+Service default/c 10.96.0.3'])
  })
})

describe('a manifests folder that cannot be read', () => {
  for (const call of ['state', 'list'] as const)
    it(`keeps its objects, and logs this: ${call}`, async () => {
      let isFailing = false
      const guard = (path: string): void => {
        if (isFailing && path === folder.root)
          throw new ConfigError(path, 'cannot be read: input/output error')
      }
      await folder.start(
        {
          [call]: (path: string) => {
            guard(path)
            return nodeFileSystem[call](path)
          },
        },
        clock,
      )
      folder.batches.length = 0
      isFailing = true
      const line = await folder.loggedAfter(() => {
        renameSync(folder.root, away())
        renameSync(away(), folder.root)
      })
      assert.match(line, /input\/output error/u)
      isFailing = false
      await folder.until(() => folder.errors === 0)
      assert.deepEqual(folder.batches.flat(), [])
    })
})

describe('a manifests folder that is empty', () => {
  const emptying: { name: string; act: () => void }[] = [
    {
      name: 'each file was deleted',
      act: () => {
        unlinkSync(folder.path('a.yaml'))
        rmSync(folder.path('sub'), { recursive: true })
      },
    },
    {
      name: 'another folder took its place, as after an unmount',
      act: () => {
        renameSync(folder.root, away())
        mkdirSync(folder.root)
      },
    },
  ]
  for (const { name, act } of emptying) {
    it(`loses its objects after 10 s: ${name}`, async () => {
      await folder.start({}, clock)
      folder.batches.length = 0
      assert.match(await folder.loggedAfter(act), /is empty: its objects are removed after 10 s$/u)
      assert.deepEqual(folder.batches, [])
      const batch = await endGracePeriod()
      assert.deepEqual(batch.toSorted(), ['-Service default/a', '-Service default/b'])
      await folder.until(() => folder.errors === 0)
    })

    it(`keeps objects that are back within 10 s: ${name}`, async () => {
      await folder.start({}, clock)
      folder.batches.length = 0
      await folder.loggedAfter(act)
      passedMs += gracePeriodMs - 1000
      const batch = await folder.after(() => {
        write('a.yaml', service('a', '10.96.0.1'))
        write('c.yaml', service('c', '10.96.0.3'))
      })
      assert.deepEqual(batch.toSorted(), ['+Service default/c 10.96.0.3', '-Service default/b'])
      await folder.until(() => folder.errors === 0)
    })
  }

  const starts: { name: string; next: () => Promise<readonly string[]>; expected: readonly string[] }[] = [
    { name: 'it stays so', next: endGracePeriod, expected: ['synced'] },
    {
      name: 'it is filled in time',
      next: async () => await folder.after(() => write('c.yaml', service('c', '10.96.0.3'))),
      expected: ['+Service default/c 10.96.0.3', 'synced'],
    },
  ]
  for (const { name, next, expected } of starts)
    it(`at the start delays synced for 10 s: ${name}`, async () => {
      rmSync(folder.root, { recursive: true })
      mkdirSync(folder.root)
      await folder.start({}, clock)
      assert.deepEqual(folder.batches, [['listed']])
      assert.match(folder.log.at(-1) ?? '', /is empty: its objects are removed after 10 s$/u)
      assert.deepEqual(await next(), expected)
      await folder.until(() => folder.errors === 0)
    })

  it('is read again without an event, because a mount causes none', async () => {
    let isMounted = true
    await folder.start({ list: (path) => (isMounted ? nodeFileSystem.list(path) : []) }, clock)
    folder.batches.length = 0
    isMounted = false
    await folder.loggedAfter(() => {
      renameSync(folder.root, away())
      renameSync(away(), folder.root)
    })
    isMounted = true
    await folder.until(() => folder.errors === 0)
    assert.deepEqual(folder.batches.flat(), [])
  })
})
