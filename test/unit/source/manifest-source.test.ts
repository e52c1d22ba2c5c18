import assert from 'node:assert/strict'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ConfigError } from '../../../src/errors.js'
import { nodeFileSystem } from '../../../src/source/index.js'
import { type FileSystem, type WatchListener } from '../../../src/source/testing.js'
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

describe('ManifestSource: first listing', () => {
  it('is synced when the last unreadable file is readable or deleted', async () => {
    write('bad.yaml', service('bad', '10.96.0.300'))
    write('worse.yaml', '')
    await folder.start()
    assert.deepEqual(folder.batches, [['listed']])
    assert.deepEqual(await folder.after(() => write('bad.yaml', service('bad', '10.96.0.3'))), [
      '+Service default/bad 10.96.0.3',
    ])
    assert.deepEqual(await folder.after(() => unlinkSync(folder.path('worse.yaml'))), ['synced'])
  })

  it('delivers all objects, also of sub-folders, then synced', async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    write('b.json', '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}')
    write('.hidden.yaml', service('hidden', '10.96.0.9'))
    write('notes.txt', 'no manifest')
    mkdirSync(folder.path('sub/deep'), { recursive: true })
    mkdirSync(folder.path('.git'))
    write('.git/x.yaml', service('x', '10.96.0.9'))
    write('sub/deep/c.yml', service('c', '10.96.0.3'))
    await folder.start()
    const [first = [], ...rest] = folder.batches
    const sets = ['+Node /n', '+Service default/a 10.96.0.1', '+Service default/c 10.96.0.3']
    assert.deepEqual(first.slice(0, -1).toSorted(), sets)
    assert.equal(first.at(-1), 'synced')
    assert.deepEqual(rest, [])
  })

  it('reports an invalid file by file, document and field, and delivers the others', async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    write('bad.yaml', service('bad', '10.96.0.300'))
    await folder.start()
    assert.deepEqual(folder.batches, [['+Service default/a 10.96.0.1', 'listed']])
    assert.deepEqual(folder.log, [
      'Manifest is not applied: bad.yaml: document 1 (Service default/bad): ' +
        'spec.clusterIP: must be an IP address, "" or None, not the text "10.96.0.300"',
    ])
    assert.equal(folder.errors, 1)
  })

  it('starts while inotify is exhausted, names the sysctl, and is synced when the folder can be watched', async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    let isExhausted = true
    await folder.start({
      watch: (path, listener) => {
        if (isExhausted)
          throw new ConfigError(path, 'cannot be watched: raise sysctl fs.inotify.max_user_watches')
        return nodeFileSystem.watch(path, listener)
      },
    })
    assert.deepEqual(folder.batches, [['+Service default/a 10.96.0.1', 'listed']])
    assert.match(folder.log.at(-1) ?? '', /cannot be watched: raise sysctl/u)
    assert.deepEqual(await folder.after(() => (isExhausted = false)), ['synced'])
    assert.equal(folder.errors, 0)
  })
})

describe('ManifestSource: changes', () => {
  beforeEach(async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    write('b.yaml', service('b', '10.96.0.2'))
    await folder.start()
    folder.read.length = 0
  })

  const changes: { name: string; act: () => void; batch: string[]; read: string[] }[] = [
    {
      name: 'a file written in place',
      act: () => write('a.yaml', service('a', '10.96.0.11')),
      batch: ['+Service default/a 10.96.0.11'],
      read: ['a.yaml'],
    },
    {
      name: 'a file replaced by a rename, as by editors',
      act: () => {
        write('a.yaml.tmp~', service('a', '10.96.0.12'))
        renameSync(folder.path('a.yaml.tmp~'), folder.path('a.yaml'))
      },
      batch: ['+Service default/a 10.96.0.12'],
      read: ['a.yaml'],
    },
    {
      name: 'a new file',
      act: () => write('c.yaml', service('c', '10.96.0.3')),
      batch: ['+Service default/c 10.96.0.3'],
      read: ['c.yaml'],
    },
    {
      name: 'a deleted file',
      act: () => unlinkSync(folder.path('a.yaml')),
      batch: ['-Service default/a'],
      read: [],
    },
    {
      name: 'an object that leaves its file',
      act: () => write('a.yaml', service('z', '10.96.0.26')),
      batch: ['-Service default/a', '+Service default/z 10.96.0.26'],
      read: ['a.yaml'],
    },
    {
      name: 'a renamed file with one more change, in one batch',
      act: () => {
        renameSync(folder.path('a.yaml'), folder.path('z.yaml'))
        write('b.yaml', service('b', '10.96.0.22'))
      },
      batch: ['+Service default/b 10.96.0.22'],
      read: ['b.yaml', 'z.yaml'],
    },
    {
      name: 'a new sub-folder with a file',
      act: () => {
        mkdirSync(folder.path('sub/deep'), { recursive: true })
        write('sub/deep/c.yaml', service('c', '10.96.0.3'))
      },
      batch: ['+Service default/c 10.96.0.3'],
      read: ['sub/deep/c.yaml'],
    },
    {
      name: 'a sub-folder moved in from elsewhere',
      act: () => {
        const elsewhere = join(folder.base, 'elsewhere')
        mkdirSync(elsewhere)
        writeFileSync(join(elsewhere, 'c.yaml'), service('c', '10.96.0.3'))
        renameSync(elsewhere, folder.path('sub'))
      },
      batch: ['+Service default/c 10.96.0.3'],
      read: ['sub/c.yaml'],
    },
  ]
  for (const { name, act, batch, read } of changes) {
    it(`delivers only the changes: ${name}`, async () => {
      assert.deepEqual(await folder.after(act), batch)
      assert.deepEqual(folder.read.toSorted(), read)
    })
  }

  it('delivers nothing for a file that is written without a change', async () => {
    write('a.yaml', `# another comment\n${service('a', '10.96.0.1')}`)
    assert.deepEqual(await folder.after(() => write('b.yaml', service('b', '10.96.0.22'))), [
      '+Service default/b 10.96.0.22',
    ])
  })

  it('ignores the empty file of an editor that truncates and then writes', async () => {
    const batch = await folder.after(() => {
      write('a.yaml', '')
      appendFileSync(folder.path('a.yaml'), service('a', '10.96.0.13'))
    })
    assert.deepEqual(batch, ['+Service default/a 10.96.0.13'])
    assert.deepEqual(folder.log, [])
  })

  it('keeps the last valid objects of a file that becomes invalid, and reports the problem once, and its end', async () => {
    const bad = await folder.loggedAfter(() => write('a.yaml', 'apiVersion: [v1'))
    assert.match(bad, /^Manifest is not applied: a\.yaml, line 2, column 1: /u)
    write('a.yaml', 'apiVersion: [v1')
    assert.deepEqual(await folder.after(() => write('b.yaml', service('b', '10.96.0.22'))), [
      '+Service default/b 10.96.0.22',
    ])
    assert.deepEqual(folder.log, [bad])
    assert.equal(folder.errors, 1)
    const well = await folder.loggedAfter(() => write('a.yaml', service('a', '10.96.0.1')))
    assert.equal(well, 'Manifest is applied now')
    assert.equal(folder.errors, 0)
  })

  it('names a Node in two files without a namespace', async () => {
    const node = '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}'
    await folder.after(() => write('n1.json', node))
    const conflict = await folder.loggedAfter(() => write('n2.json', node))
    assert.match(conflict, /: Node n is in several files: n1\.json is in force, n2\.json is not/u)
  })

  it('deletes the objects of a deleted invalid file, and forgets its problem', async () => {
    await folder.loggedAfter(() => write('a.yaml', ''))
    assert.deepEqual(await folder.after(() => unlinkSync(folder.path('a.yaml'))), ['-Service default/a'])
    assert.equal(folder.errors, 0)
    assert.equal(folder.log.length, 1)
  })

  it('reports an object in two files; the lexically first file wins, and the other after its removal', async () => {
    const conflict = await folder.loggedAfter(() => write('b2.yaml', service('a', '10.96.0.9')))
    assert.match(conflict, /Service default\/a is in several files: a\.yaml is in force, b2\.yaml is not/u)
    const taken = await folder.after(() => unlinkSync(folder.path('a.yaml')))
    assert.deepEqual(taken, ['+Service default/a 10.96.0.9'])
    assert.equal(folder.errors, 0)
  })

  it('refuses a file that is not regular without a wait', async () => {
    mkdirSync(folder.path('d.yaml'))
    write('d.yaml/e.yaml', service('e', '10.96.0.5'))
    await folder.until(() => folder.batches.length === 2)
    const log = await folder.loggedAfter(() => symlinkSync('/dev/null', folder.path('f.yaml')))
    assert.match(log, /f\.yaml: must be a regular file/u)
    assert.deepEqual(folder.batches.at(-1), ['+Service default/e 10.96.0.5'])
  })

  it('reads a file again if it changed during the read', async () => {
    await folder.stop()
    const other = new ManifestFolder()
    try {
      mkdirSync(other.root)
      writeFileSync(other.path('a.yaml'), service('a', '10.96.0.1'))
      let reads = 0
      await other.start({
        read: (path) => {
          const contents = nodeFileSystem.read(path)
          reads += 1
          return reads <= 2 && contents !== undefined ? { ...contents, stable: false } : contents
        },
      })
      await other.until(() => other.batches.length === 2)
      assert.deepEqual(other.batches, [['listed'], ['+Service default/a 10.96.0.1', 'synced']])
    } finally {
      await other.close()
    }
  })

  it('delivers nothing after stop', async () => {
    assert.ok(folder.watches > 0)
    const before = folder.batches.length
    write('a.yaml', service('a', '10.96.0.14'))
    await folder.stop()
    write('b.yaml', service('b', '10.96.0.24'))
    await folder.stop()
    assert.equal(folder.batches.length, before)
    assert.equal(folder.watches, 0)
  })
})

describe('ManifestSource: a receiver of events that throws', () => {
  it('is reported to the opener of the source, which can still be stopped', async () => {
    await folder.start()
    const bug = new Error('a bug')
    folder.deliver = () => {
      throw bug
    }
    write('late.yaml', service('late', '10.96.0.9'))
    await folder.until(() => folder.crashes.length > 0)
    assert.deepEqual(folder.crashes, [bug])
    await folder.stop()
  })
})

describe('ManifestSource: folders that come and go', () => {
  beforeEach(async () => {
    mkdirSync(folder.path('sub'))
    write('sub/a.yaml', service('a', '10.96.0.1'))
    await folder.start()
  })

  it('deletes the objects of a deleted sub-folder, and follows a new one with the same name', async () => {
    await folder.after(() => write('other.yaml', service('other', '10.96.0.9')))
    const remove = () => rmSync(folder.path('sub'), { recursive: true })
    assert.deepEqual(await folder.after(remove), ['-Service default/a'])
    const create = () => {
      mkdirSync(folder.path('sub'))
      write('sub/b.yaml', service('b', '10.96.0.2'))
    }
    assert.deepEqual(await folder.after(create), ['+Service default/b 10.96.0.2'])
    assert.deepEqual(await folder.after(() => write('sub/b.yaml', service('b', '10.96.0.3'))), [
      '+Service default/b 10.96.0.3',
    ])
  })

  it('replaces all objects when another folder is renamed into its place', async () => {
    const next = join(folder.base, 'next')
    mkdirSync(next)
    writeFileSync(join(next, 'b.yaml'), service('b', '10.96.0.2'))
    const batch = await folder.after(() => {
      renameSync(folder.root, join(folder.base, 'old'))
      renameSync(next, folder.root)
    })
    assert.deepEqual(batch.toSorted(), ['+Service default/b 10.96.0.2', '-Service default/a'])
  })

  it('does not follow a link to a folder above itself', async () => {
    const log = await folder.loggedAfter(() => symlinkSync('..', folder.path('sub/loop')))
    assert.match(log, /sub\/loop: is a link to a folder above itself/u)
  })
})

/** Updates a ConfigMap volume as the kubelet does: a new data folder, then one rename swaps `..data`. */
function project(version: string, files: Record<string, string>): void {
  const old = readdirSync(folder.root).filter((name) => name.startsWith('..2'))
  mkdirSync(folder.path(version))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder.path(version), name, '..'), { recursive: true })
    write(`${version}/${name}`, text)
  }
  symlinkSync(version, folder.path('..data_tmp'))
  renameSync(folder.path('..data_tmp'), folder.path('..data'))
  for (const name of old) rmSync(folder.path(name), { recursive: true })
}

describe('ManifestSource: symbolic links', () => {
  it('follows the swap of a ConfigMap volume, in one batch', async () => {
    project('..2026_01', {
      'a.yaml': service('a', '10.96.0.1'),
      'b.yaml': service('b', '10.96.0.2'),
      'sub/c.yaml': service('c', '10.96.0.3'),
    })
    for (const name of ['a.yaml', 'b.yaml', 'sub']) symlinkSync(`..data/${name}`, folder.path(name))
    await folder.start()
    assert.equal(folder.batches[0]?.length, 4)
    for (const version of ['..2026_02', '..2026_03']) {
      const last = version.at(-1)
      const batch = await folder.after(() =>
        project(version, {
          'a.yaml': service('a', `10.96.${last}.1`),
          'b.yaml': service('b', '10.96.0.2'),
          'sub/c.yaml': service('c', `10.96.${last}.3`),
        }),
      )
      const expected = [`+Service default/a 10.96.${last}.1`, `+Service default/c 10.96.${last}.3`]
      assert.deepEqual(batch.toSorted(), expected)
    }
    assert.deepEqual(folder.log, [])
  })

  it('follows a linked file that is written in its own folder', async () => {
    const target = join(folder.base, 'target.yaml')
    writeFileSync(target, service('a', '10.96.0.1'))
    symlinkSync(target, folder.path('a.yaml'))
    await folder.start()
    const edit = () => writeFileSync(target, service('a', '10.96.0.2'))
    assert.deepEqual(await folder.after(edit), ['+Service default/a 10.96.0.2'])
  })

  const away: { name: string; leave: () => void; comeBack: (text: string) => void }[] = [
    {
      name: 'a file',
      leave: () => unlinkSync(join(folder.base, 'out/deep/a.yaml')),
      comeBack: (text) => writeFileSync(join(folder.base, 'out/deep/a.yaml'), text),
    },
    {
      name: 'the folders above it',
      leave: () => rmSync(join(folder.base, 'out'), { recursive: true }),
      comeBack: (text) => {
        mkdirSync(join(folder.base, 'out/deep'), { recursive: true })
        writeFileSync(join(folder.base, 'out/deep/a.yaml'), text)
      },
    },
  ]
  for (const { name, leave, comeBack } of away) {
    it(`follows a link whose target was removed and restored: ${name}`, async () => {
      mkdirSync(join(folder.base, 'out/deep'), { recursive: true })
      writeFileSync(join(folder.base, 'out/deep/a.yaml'), service('a', '10.96.0.1'))
      symlinkSync('../out/deep/a.yaml', folder.path('a.yaml'))
      await folder.start()
      assert.deepEqual(await folder.after(leave), ['-Service default/a'])
      const back = await folder.after(() => comeBack(service('a', '10.96.0.2')))
      assert.deepEqual(back, ['+Service default/a 10.96.0.2'])
      const edited = await folder.after(() => comeBack(service('a', '10.96.0.3')))
      assert.deepEqual(edited, ['+Service default/a 10.96.0.3'])
    })
  }

  it('follows links without a target at the start, also links to links, until they are deleted', async () => {
    symlinkSync('b.yaml', folder.path('a.yaml'))
    symlinkSync('../out/c.yaml', folder.path('b.yaml'))
    symlinkSync('../out', folder.path('sub'))
    await folder.start()
    assert.deepEqual(folder.batches, [['synced']])
    const arrive = () => {
      mkdirSync(join(folder.base, 'out'))
      writeFileSync(join(folder.base, 'out/c.yaml'), service('c', '10.96.0.1'))
    }
    assert.deepEqual(await folder.after(arrive), ['+Service default/c 10.96.0.1'])
    await folder.after(() => write('other.yaml', service('other', '10.96.0.9')))
    for (const name of ['a.yaml', 'b.yaml']) unlinkSync(folder.path(name))
    const edit = () => writeFileSync(join(folder.base, 'out/c.yaml'), service('c', '10.96.0.2'))
    assert.deepEqual(await folder.after(edit), ['+Service default/c 10.96.0.2'])
    assert.deepEqual(await folder.after(() => unlinkSync(folder.path('sub'))), ['-Service default/c'])
  })

  it('leaves no watch behind for a link without a target', async () => {
    await folder.start()
    const before = folder.watches
    symlinkSync('../out/c.yaml', folder.path('z.yaml'))
    await folder.after(() => write('a.yaml', service('a', '10.96.0.1')))
    assert.equal(folder.watches, before + 1)
    unlinkSync(folder.path('z.yaml'))
    await folder.after(() => write('a.yaml', service('a', '10.96.0.2')))
    assert.equal(folder.watches, before)
  })

  it('follows a manifests folder that is a link, and the link itself', async () => {
    const [one, two] = [join(folder.base, 'one'), join(folder.base, 'two')]
    for (const [path, ip] of [
      [one, '10.96.0.1'],
      [two, '10.96.0.2'],
    ] as const) {
      mkdirSync(path)
      writeFileSync(join(path, 'a.yaml'), service('a', ip))
    }
    rmSync(folder.root, { recursive: true })
    symlinkSync(one, folder.root)
    await folder.start()
    const edit = () => writeFileSync(join(one, 'a.yaml'), service('a', '10.96.0.11'))
    assert.deepEqual(await folder.after(edit), ['+Service default/a 10.96.0.11'])
    const swap = () => {
      symlinkSync(two, join(folder.base, 'link'))
      renameSync(join(folder.base, 'link'), folder.root)
    }
    assert.deepEqual(await folder.after(swap), ['+Service default/a 10.96.0.2'])
  })
})

describe('ManifestSource: many files', () => {
  it('reads one file for one change among 2,000, and all files after a burst that may have lost events', async () => {
    for (let i = 0; i < 2000; i++) write(`${i}.yaml`, service(`s${i}`, `10.97.${i >> 8}.${i & 255}`))
    await folder.start()
    // Events are delivered in batches, so that other work does not wait long. The last batch has synced.
    assert.deepEqual(
      folder.batches.map((batch) => batch.length),
      [1000, 1000, 1],
    )
    folder.read.length = 0
    assert.deepEqual(await folder.after(() => write('7.yaml', service('s7', '10.98.0.7'))), [
      '+Service default/s7 10.98.0.7',
    ])
    assert.deepEqual(folder.read, ['7.yaml'])
    const delivered = folder.batches.length
    for (let i = 0; i < 2000; i++) write(`${i}.yaml`, service(`s${i}`, `10.99.${i >> 8}.${i & 255}`))
    await folder.until(() => folder.batches.slice(delivered).flat().length >= 2000)
    assert.equal(new Set(folder.batches.slice(delivered).flat()).size, 2000)
  })

  it('reads all files after a burst so long that the kernel may have dropped events', async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    write('b.yaml', service('b', '10.96.0.2'))
    const listeners = new Map<string, WatchListener>()
    await folder.start({
      watch: (path, listener) => {
        listeners.set(path, listener)
        return () => undefined
      },
    })
    folder.read.length = 0
    const batch = await folder.after(() => {
      write('b.yaml', service('b', '10.96.0.22'))
      for (let i = 0; i < 4096; i++) listeners.get(folder.root)?.changed('a.yaml')
    })
    assert.deepEqual(batch, ['+Service default/b 10.96.0.22'])
    assert.deepEqual(folder.read.toSorted(), ['a.yaml', 'b.yaml'])
  })

  it('reads a whole folder if an event names no file', async () => {
    write('a.yaml', service('a', '10.96.0.1'))
    const listeners = new Map<string, WatchListener>()
    await folder.start({
      watch: (path, listener) => {
        listeners.set(path, listener)
        return () => undefined
      },
    })
    const batch = await folder.after(() => {
      write('b.yaml', service('b', '10.96.0.2'))
      listeners.get(folder.root)?.changed(undefined)
    })
    assert.deepEqual(batch, ['+Service default/b 10.96.0.2'])
  })

  it('retries a folder that could not be watched', async () => {
    write('other.yaml', service('other', '10.96.0.9'))
    await folder.start({
      watch: (path, listener) => {
        if (path === folder.path('sub') && folder.errors === 0 && folder.log.length === 0) {
          throw new ConfigError(path, 'cannot be watched')
        }
        return nodeFileSystem.watch(path, listener)
      },
    })
    const create = () => {
      mkdirSync(folder.path('sub'))
      write('sub/a.yaml', service('a', '10.96.0.1'))
    }
    assert.deepEqual(await folder.after(create), ['+Service default/a 10.96.0.1'])
    assert.equal(folder.errors, 1)
    await folder.after(() => write('b.yaml', service('b', '10.96.0.2')))
    assert.equal(folder.errors, 0)
    assert.deepEqual(await folder.after(() => write('sub/a.yaml', service('a', '10.96.0.3'))), [
      '+Service default/a 10.96.0.3',
    ])
  })
})

describe('ManifestSource: a large folder', () => {
  it('ends its first read of a large folder on stop', async () => {
    const files = 2000
    for (let i = 0; i < files; i++) writeFileSync(folder.path(`s${i}.yaml`), '')
    let looks = 0
    const state: FileSystem['state'] = (path) => {
      looks++
      return nodeFileSystem.state(path)
    }
    const start = folder.start({ state })
    await folder.stop()
    await start
    assert.ok(looks < files, `${looks} looks`)
    assert.deepEqual(folder.batches, [])
  })
})
