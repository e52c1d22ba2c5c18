// The bundle ships the addon of a build before: it must be of the same source (issue 19).
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { runToEnd } from '../../support/processes.js'
import { treeRoot } from '../../support/tree.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-bundle-'))
after(() => rmSync(folder, { recursive: true }))

const built = join(treeRoot, 'build/Release/viaduct.node')
const program = `
import { checkAddon } from '${pathToFileURL(join(treeRoot, 'scripts/bundle.mjs')).href}'
await checkAddon(process.argv[1])`

function check(addon: string): ReturnType<typeof runToEnd> {
  return runToEnd([process.execPath, '--input-type=module', '--eval', program, addon])
}

/** The addon with one name replaced, as a build of a different source has it. */
function addonWith(name: string, other: string): string {
  const file = join(folder, 'viaduct.node')
  const text = readFileSync(built, 'latin1')
  assert.ok(text.includes(`\0${name}\0`) && name.length === other.length)
  writeFileSync(file, text.replaceAll(`\0${name}\0`, `\0${other}\0`), 'latin1')
  return file
}

describe("the bundle's check of the addon", () => {
  it('takes the addon of this source', async () => {
    assert.deepEqual(await check(built), { code: 0, stdout: '', stderr: '' })
  })

  const others = [
    ['firstRule', 'firstRole', /xtables chainLayout\.firstRule is absent in the addon and 4 in this build/u],
    ['named-counter', 'noted-counter', /the addon's nf_tables attributes are not this build's/u],
  ] as const
  for (const [name, other, difference] of others) {
    it(`refuses an addon with ${other} for ${name}, and names the remedy`, async () => {
      const { code, stderr } = await check(addonWith(name, other))
      assert.equal(code, 1)
      assert.match(stderr, /does not fit the source: run `npm run build:native` first/u)
      assert.match(stderr, difference)
    })
  }
})
