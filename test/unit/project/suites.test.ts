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

/** Runs four suites in lanes. Each line of events: the suite that ends, then what has happened since the line before. */
const lanes = `
import { setImmediate as turn } from 'node:timers/promises'
import { runInLanes } from '${scripts}suites/lanes.mjs'
let events = []
const ends = {}
const work = async ({ name }) => {
  events.push('starts ' + name)
  await new Promise((resolve) => (ends[name] = resolve))
  events.push('ends ' + name)
  return name.toUpperCase()
}
const suites = [{ name: 'unit' }, { name: 'guest', lane: 'guest' }, { name: 'kernel' }, { name: 'demo', lane: 'guest' }]
const results = runInLanes(suites, work)
const lines = []
for (const name of ['', 'unit', 'kernel', 'guest', 'demo']) {
  ends[name]?.()
  await turn()
  lines.push(events)
  events = []
}
console.log(JSON.stringify({ lines, results: await Promise.all(results.values()) }))`

describe('the lanes of suites', () => {
  it('run side by side, and the suites of a lane one after the other', async () => {
    const { stdout } = await runToEnd([process.execPath, '--input-type=module', '--eval', lanes])
    assert.deepEqual(JSON.parse(stdout), {
      lines: [
        ['starts unit', 'starts guest'],
        ['ends unit', 'starts kernel'],
        ['ends kernel'],
        ['ends guest', 'starts demo'],
        ['ends demo'],
      ],
      results: ['UNIT', 'GUEST', 'KERNEL', 'DEMO'],
    })
  })
})

/** Runs a suite. Prints its result, and what had happened when the build ended and in the end. */
const fetching = `
import { setImmediate as turn } from 'node:timers/promises'
import { runSuite } from '${scripts}test.mjs'
import { StepError } from '${scripts}steps.mjs'
const events = []
let end
const built = new Promise((resolve) => (end = resolve))
const fetch = async () => {
  events.push('fetches')
  if (process.argv[1] === 'fails') throw new StepError('no network')
}
const run = async () => {
  events.push('runs')
  return { passed: true, summary: '1 tests', details: '' }
}
const running = runSuite({ name: 'of a test', fetch, run }, built)
await turn()
const before = [...events]
end()
const { result } = await running
console.log(JSON.stringify({ before, events, result }))`

async function afterDownload(download: string): Promise<unknown> {
  const { stdout } = await runToEnd([process.execPath, '--input-type=module', '--eval', fetching, download])
  return JSON.parse(stdout)
}

describe('a suite that needs a download', () => {
  it('starts the download during the build, and runs after both', async () => {
    assert.deepEqual(await afterDownload('works'), {
      before: ['fetches'],
      events: ['fetches', 'runs'],
      result: { passed: true, summary: '1 tests', details: '' },
    })
  })

  // The failure ended the whole run.
  it('fails by itself without the download', async () => {
    assert.deepEqual(await afterDownload('fails'), {
      before: ['fetches'],
      events: ['fetches'],
      result: { passed: false, summary: '', details: 'no network' },
    })
  })
})
