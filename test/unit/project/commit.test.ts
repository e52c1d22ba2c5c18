// The commit that a build names: scripts/commit.mjs, and dist/ as it was built.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { mustRun, runToEnd } from '../../support/processes.js'
import { treeRoot } from '../../support/tree.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-commit-'))
after(() => rmSync(folder, { recursive: true }))

const program = `
import { commitOf } from '${pathToFileURL(join(treeRoot, 'scripts/commit.mjs')).href}'
import { runMain } from '${pathToFileURL(join(treeRoot, 'scripts/steps.mjs')).href}'
const [folder, given] = process.argv.slice(1)
const environment = { PATH: process.env.PATH, VIADUCT_COMMIT: given }
await runMain(async () => console.log(await commitOf({ folder, environment })))`

function commitOf(place: string, given?: string): ReturnType<typeof runToEnd> {
  const words = given === undefined ? [place] : [place, given]
  return runToEnd([process.execPath, '--input-type=module', '--eval', program, ...words])
}

async function assertCommit(place: string, stdout: string, given?: string): Promise<void> {
  assert.deepEqual(await commitOf(place, given), { code: 0, stdout, stderr: '' })
}

describe('the commit of a build', () => {
  const tree = join(folder, 'tree')
  let head = ''

  async function git(...words: readonly string[]): Promise<string> {
    const author = ['-c', 'user.name=a', '-c', 'user.email=a@example.org']
    return await mustRun(['git', '-C', tree, ...author, ...words])
  }

  before(async () => {
    mkdirSync(tree)
    await git('init', '--quiet')
    writeFileSync(join(tree, '.gitignore'), 'out\n')
    writeFileSync(join(tree, 'file'), 'committed')
    await git('add', '.')
    await git('commit', '--quiet', '--message', 'first')
    head = (await git('rev-parse', 'HEAD')).trim()
    assert.match(head, /^[0-9a-f]{40}$/u)
  })

  it('is the one that the tree has checked out', async () => {
    writeFileSync(join(tree, 'out'), 'ignored')
    await assertCommit(tree, head)
  })

  it('has -dirty while the tree differs: a new file, or a changed one', async () => {
    writeFileSync(join(tree, 'new'), '')
    await assertCommit(tree, `${head}-dirty`)
    rmSync(join(tree, 'new'))
    writeFileSync(join(tree, 'file'), 'changed')
    await assertCommit(tree, `${head}-dirty`)
    await git('checkout', '--quiet', '.')
    await assertCommit(tree, head)
  })

  it('is unknown without git, and in a source archive inside of another tree', async () => {
    const archive = join(tree, 'out-archive')
    mkdirSync(archive)
    await assertCommit(archive, 'unknown')
    await assertCommit(folder, 'unknown')
    rmSync(archive, { recursive: true })
  })

  it('is what the environment says, in any folder', async () => {
    for (const given of [head, `${head}-dirty`, 'unknown']) await assertCommit(folder, given, given)
    await assertCommit(tree, head, '')
  })

  it('is refused in another form, with what is right', async () => {
    const { code, stderr } = await commitOf(tree, 'v0.2.0')
    assert.equal(code, 1)
    assert.match(stderr, /^error: VIADUCT_COMMIT is "v0\.2\.0": it must be the 40 hexadecimal digits of /u)
  })
})

it('--version of dist/ names the commit', async () => {
  const printed = await mustRun([process.execPath, join(treeRoot, 'dist/agent.js'), '--version'])
  assert.match(printed.trim(), /^viaduct \d+\.\d+\.\d+ \(commit (?:[0-9a-f]{40}(?:-dirty)?|unknown)\)$/u)
})
