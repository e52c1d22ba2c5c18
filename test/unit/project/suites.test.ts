// The suites of `npm test` name their tests by folder and path. A moved test must cause an error (issue 19).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { runToEnd } from '../../support/processes.js'
import { treeRoot } from '../../support/tree.js'

const scripts = pathToFileURL(join(treeRoot, 'scripts/')).href

/** Prints the paths. */
const program = `
import { compiledTests } from '${scripts}suites/node-tests.mjs'
const [folder, file] = process.argv.slice(1)
console.log(compiledTests(folder, (path) => path === file).join(' '))`

function selected(folder: string, file: string): ReturnType<typeof runToEnd> {
  return runToEnd([process.execPath, '--input-type=module', '--eval', program, folder, file])
}

describe("the selection of a suite's test files", () => {
  it('is the compiled file of a test that exists', async () => {
    const { code, stdout } = await selected('test/contract', 'test/contract/kernel-host.test.ts')
    assert.deepEqual([code, stdout.trim()], [0, 'out/ts/test/contract/kernel-host.test.js'])
  })

  it('is an error when no test is left', async () => {
    const { code, stderr } = await selected('test/contract', 'test/contract/moved.test.ts')
    assert.equal(code, 1)
    assert.match(stderr, /no test file in test\/contract that .* selects/u)
  })

  it('is an error when the folder does not exist', async () => {
    const { code, stderr } = await selected('test/moved', 'test/moved/one.test.ts')
    assert.equal(code, 1)
    assert.match(stderr, /no such file or directory.*test\/moved/u)
  })
})

/** Runs test files of a folder, and prints the verdict. */
const judging = `
import { run } from '${scripts}steps.mjs'
import { judge, nodeTest } from '${scripts}suites/node-tests.mjs'
const [runner, folder, ...names] = process.argv.slice(1)
const guest = names.map((name) => \`echo '# \${name}'; node --test-reporter=spec \${name}\`).join('; ')
const command = runner === 'node --test' ? [...nodeTest, ...names] : ['sh', '-c', guest]
const apart = ['env', '--unset=NODE_TEST_CONTEXT', '--chdir', folder]
console.log(JSON.stringify(judge(await run([...apart, ...command], { timeoutSeconds: 60 }))))`

// A file without tests counted as one passing test, and one with an empty describe was not found among others.
describe('the verdict on test files', () => {
  let folder: string

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-suites-'))
    writeFileSync(join(folder, 'full.test.js'), "require('node:test').it('passes', () => {})\n")
    writeFileSync(join(folder, 'empty.test.js'), '')
    const suites = "const { describe } = require('node:test')\ndescribe('a', () => describe('b', () => {}))\n"
    writeFileSync(join(folder, 'suites.test.js'), suites)
  })
  after(() => rmSync(folder, { recursive: true }))

  async function verdict(runner: string, ...names: readonly string[]): Promise<unknown> {
    const evaluation = ['--input-type=module', '--eval', judging, runner, folder, ...names]
    const { stdout } = await runToEnd([process.execPath, ...evaluation])
    const { passed, summary } = Object(JSON.parse(stdout))
    return { passed, summary }
  }

  for (const runner of ['node --test', 'node, as in the guest']) {
    it(`of ${runner} is good when each file has a test`, async () => {
      assert.deepEqual(await verdict(runner, 'full.test.js'), { passed: true, summary: '1 tests' })
    })

    for (const file of ['empty.test.js', 'suites.test.js']) {
      it(`of ${runner} is bad when a file has none, and names the file: ${file}`, async () => {
        const { passed, summary } = Object(await verdict(runner, file, 'full.test.js'))
        assert.equal(passed, false)
        assert.match(summary, new RegExp(`, no test in (?:\\S+/)?${file}$`, 'u'))
      })
    }
  }
})
