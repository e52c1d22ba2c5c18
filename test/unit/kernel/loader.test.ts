import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { openKernel } from '../../../src/kernel/index.js'
import { addonCandidates, checkProcessor, loadAddon } from '../../../src/kernel/loader.js'

/** Runs `use` with a folder that has these files. */
function withFiles(files: Readonly<Record<string, string>>, use: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-loader-'))
  try {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), content)
    }
    use(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const ourPackage = { 'package.json': '{ "name": "viaduct" }' }
const moduleIn = (folder: string): string => pathToFileURL(join(folder, 'out/ts/agent.js')).href

describe('addonCandidates', () => {
  it('looks in the folder of the code, then in the build folder of our package', () => {
    withFiles(ourPackage, (folder) => {
      const expected = ['out/ts/viaduct.node', 'build/Release/viaduct.node', 'build/viaduct.node']
      assert.deepEqual(
        addonCandidates({ moduleUrl: moduleIn(folder) }),
        expected.map((path) => join(folder, path)),
      )
    })
  })
  for (const [what, files] of [
    ['no package', {}],
    ['the package of another project', { 'package.json': '{ "name": "other" }' }],
    ['a package.json that is none', { 'package.json': 'null' }],
  ] as const) {
    it(`looks only in the folder of the code in ${what}`, () => {
      withFiles(files, (folder) => {
        assert.deepEqual(addonCandidates({ moduleUrl: moduleIn(folder) }), [
          join(folder, 'out/ts/viaduct.node'),
        ])
      })
    })
  }
  it('uses only the named file', () => {
    assert.deepEqual(addonCandidates({ addonPath: '/a/b.node', moduleUrl: 'file:///opt/agent.js' }), [
      '/a/b.node',
    ])
  })
  it('resolves a named file from the working directory', () => {
    // dlopen() looks for a name without a slash in the folders of the system.
    assert.deepEqual(addonCandidates({ addonPath: 'b.node', moduleUrl: 'file:///opt/agent.js' }), [
      join(process.cwd(), 'b.node'),
    ])
  })
})

/** Lines of the message of the ConfigError from loading. */
function refusal(moduleUrl: string): readonly string[] {
  let lines: readonly string[] = []
  assert.throws(
    () => loadAddon({ moduleUrl }),
    (error: unknown) => {
      assert.ok(error instanceof Error)
      assert.equal(error.name, 'ConfigError')
      assert.match(error.message, /npm run build:native/)
      assert.match(error.message, /VIADUCT_ADDON/)
      lines = error.message.split('\n')
      return true
    },
  )
  return lines
}

describe('checkProcessor', () => {
  it('refuses big endian, and names the processor and what would be right', () => {
    assert.throws(() => checkProcessor('s390x', 'BE'), {
      name: 'ConfigError',
      message:
        /\(s390x\): it is big endian; use a node with a little endian processor, such as x64 or arm64/u,
    })
  })

  for (const arch of ['x64', 'arm64', 'ppc64']) {
    it(`takes little endian ${arch}`, () => {
      assert.doesNotThrow(() => checkProcessor(arch, 'LE'))
    })
  }
})

describe('loadAddon', () => {
  it('lists each path if there is no addon, with advice', () => {
    withFiles(ourPackage, (folder) => {
      const moduleUrl = moduleIn(folder)
      assert.deepEqual(
        refusal(moduleUrl).slice(1),
        addonCandidates({ moduleUrl }).map((path) => `  ${path}`),
      )
    })
  })

  it('fails with the error of the first existing file', () => {
    withFiles(
      { ...ourPackage, 'build/Release/viaduct.node': 'no library', 'build/viaduct.node': 'nor this' },
      (folder) => {
        const lines = refusal(moduleIn(folder)).slice(1)
        assert.equal(lines.length, 1)
        assert.ok(lines[0]?.includes(join(folder, 'build/Release/viaduct.node')))
        assert.match(lines[0] ?? '', /invalid ELF header|file too short/)
      },
    )
  })

  it('runs only at the first call into the kernel', async () => {
    const kernel = openKernel({ addonPath: '/nowhere/viaduct.node' })
    await assert.rejects(kernel.ipvs.info(), { name: 'ConfigError' })
    await assert.rejects(kernel.routes.dumpLocalRoutes('ipv4'), { name: 'ConfigError' })
    assert.throws(() => kernel.links.watch(), { name: 'ConfigError' })
    await kernel.close()
  })
})
