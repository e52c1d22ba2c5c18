import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { openKernel } from '../../../src/kernel/index.js'
import { addonCandidates, loadAddon } from '../../../src/kernel/loader.js'

describe('addonCandidates', () => {
  it('looks beside the code, then in the build folders above it', () => {
    assert.deepEqual(addonCandidates({ moduleUrl: 'file:///opt/viaduct/dist/agent.js' }).slice(0, 5), [
      '/opt/viaduct/dist/viaduct.node',
      '/opt/viaduct/dist/build/Release/viaduct.node',
      '/opt/viaduct/dist/build/viaduct.node',
      '/opt/viaduct/build/Release/viaduct.node',
      '/opt/viaduct/build/viaduct.node',
    ])
  })
  it('takes the named file and no other', () => {
    assert.deepEqual(addonCandidates({ addonPath: '/a/b.node', moduleUrl: 'file:///opt/agent.js' }), [
      '/a/b.node',
    ])
  })
})

describe('loadAddon', () => {
  it('lists each path with its error, and says what to do', () => {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-loader-'))
    try {
      const path = join(folder, 'viaduct.node')
      writeFileSync(path, 'no library')
      const moduleUrl = pathToFileURL(join(folder, 'agent.js')).href
      assert.throws(
        () => loadAddon({ moduleUrl }),
        (error: unknown) => {
          assert.ok(error instanceof Error)
          assert.equal(error.name, 'ConfigError')
          assert.match(error.message, /npm run build:native/)
          assert.match(error.message, /VIADUCT_ADDON/)
          const lines = error.message.split('\n').slice(1)
          assert.equal(lines.length, addonCandidates({ moduleUrl }).length)
          assert.ok(lines[0]?.includes(path))
          assert.match(lines[0] ?? '', /invalid ELF header|file too short/)
          assert.match(lines[1] ?? '', /No such file/)
          return true
        },
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('is not asked for before the first call', async () => {
    const kernel = openKernel({ addonPath: '/nowhere/viaduct.node' })
    await assert.rejects(kernel.ipvs.info(), { name: 'ConfigError' })
    await assert.rejects(kernel.routes.dumpLocalRoutes('ipv4'), { name: 'ConfigError' })
    assert.throws(() => kernel.links.watch(), { name: 'ConfigError' })
    await kernel.close()
  })
})
