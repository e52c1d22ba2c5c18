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

/** Prints the verdict on the output of a command. */
const judging = `
import { run } from '${scripts}steps.mjs'
import { judge } from '${scripts}suites/node-tests.mjs'
console.log(JSON.stringify(judge(await run(process.argv.slice(1), { timeoutSeconds: 60 }))))`

// A file without tests counted as one passing test.
describe('the verdict on test files', () => {
  let folder: string

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-suites-'))
    writeFileSync(join(folder, 'full.test.js'), "require('node:test').it('passes', () => {})\n")
    writeFileSync(join(folder, 'empty.test.js'), '')
  })
  after(() => rmSync(folder, { recursive: true }))

  async function verdict(script: string): Promise<unknown> {
    const command = ['env', '--unset=NODE_TEST_CONTEXT', '--chdir', folder, 'sh', '-c', script]
    const { stdout } = await runToEnd([
      process.execPath,
      '--input-type=module',
      '--eval',
      judging,
      ...command,
    ])
    const { passed, summary } = Object(JSON.parse(stdout))
    return { passed, summary }
  }

  const runners: Readonly<Record<string, (names: readonly string[]) => string>> = {
    'node --test': (names) => `node --test --test-reporter=spec ${names.join(' ')}`,
    'node, as in the guest': (names) =>
      names.map((name) => `echo '# ${name}'; node --test-reporter=spec ${name}`).join('; '),
  }
  for (const [runner, script] of Object.entries(runners)) {
    it(`of ${runner} is good when each file has a test`, async () => {
      assert.deepEqual(await verdict(script(['full.test.js'])), { passed: true, summary: '1 tests' })
    })

    it(`of ${runner} is bad when a file has none, and names the file`, async () => {
      const { passed, summary } = Object(await verdict(script(['empty.test.js', 'full.test.js'])))
      assert.equal(passed, false)
      assert.match(summary, /, no test in (?:\S+\/)?empty\.test\.js$/u)
    })
  }
})
