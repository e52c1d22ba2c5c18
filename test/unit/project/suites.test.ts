// The suites of `npm test` name their tests by folder and path. A moved test must cause an error (issue 19).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
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
