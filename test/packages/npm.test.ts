// The npm package, from an empty folder: no build tools and no other packages are needed. The suite makes it by `npm pack`.
import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { mustRun, runToEnd } from '../support/processes.js'
import { treeRoot, treeText } from '../support/tree.js'

const made = process.env['VIADUCT_NPM_PACKAGE']
assert.ok(made !== undefined, 'VIADUCT_NPM_PACKAGE is set by the packages suite')
const tarball = made

describe('the npm package', { timeout: 120_000 }, () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-npm-'))
    copyFileSync(tarball, join(folder, 'viaduct.tgz'))
  })
  after(() => rmSync(folder, { recursive: true }))

  it('has the shipped files, their licences and nothing else', async () => {
    const listed = (await mustRun(['tar', '--list', '--gzip', '--file', tarball])).split('\n')
    const shipped = readdirSync(join(treeRoot, 'dist')).map((name) => `dist/${name}`)
    const others = ['LICENSE', 'LICENSES-npm', 'README.md', 'bin/viaduct.js', 'package.json']
    assert.deepEqual(listed.toSorted(), [...shipped, ...others].map((name) => `package/${name}`).toSorted())
  })

  it('names the platform of its addon, and the tree does not', async () => {
    const extract = ['tar', '--extract', '--to-stdout', '--gzip', '--file', tarball, 'package/package.json']
    const packed: object = JSON.parse(await mustRun(extract))
    const platform = { os: ['linux'], cpu: [process.arch], libc: ['glibc'] }
    assert.deepEqual(packed, { ...JSON.parse(treeText('package.json')), ...platform })
    assert.doesNotMatch(treeText('package.json'), /"(?:cpu|libc)"/u)
  })

  it('is at most 4 MB', () => {
    assert.ok(readFileSync(tarball).length < 4_000_000)
  })

  // On Node 18 of Debian 12 a start ended with: TypeError: [...].toSorted is not a function.
  it('refuses Node 18 with a sentence', async () => {
    await mustRun(['tar', '--extract', '--gzip', '--file', tarball, '--directory', folder])
    const node18 = 'Object.defineProperty(process,"versions",{value:{...process.versions,node:"18.20.4"}})'
    const command = [process.execPath, '--import', `data:text/javascript,${node18}`]
    for (const word of ['status', '--version']) {
      const { code, stderr } = await runToEnd([...command, join(folder, 'package/bin/viaduct.js'), word])
      const expected = 'viaduct: this is Node 18.20.4; Node 20.20 or later is needed'
      assert.deepEqual([code, stderr.trim()], [1, expected])
    }
  })

  it('runs by npx, without a registry', async () => {
    const enter = [
      'env',
      '--chdir',
      folder,
      `npm_config_cache=${join(folder, 'cache')}`,
      'npm_config_offline=true',
    ]
    const npx = [...enter, 'npx', '--yes', './viaduct.tgz']
    const { version }: { readonly version: string } = JSON.parse(treeText('package.json'))
    assert.ok((await mustRun([...npx, '--version'])).startsWith(`viaduct ${version} (commit `))
    assert.match(await mustRun([...npx, '--help']), /--proxy-mode <MODE>/u)
  })
})
