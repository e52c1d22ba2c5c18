// `npm test`: installs missing packages, builds, and runs the suites. Prints one line per suite.
// Usage: node scripts/test.mjs [SUITE...]
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { build, installPackages } from './setup.mjs'
import { elapsed, isMain, root, runMain, StepError } from './steps.mjs'
import { runInLanes } from './suites/lanes.mjs'

async function main() {
  await installPackages('test')
  const { suites } = await import('./suites/index.mjs') // needs node_modules
  const chosen = chooseSuites(suites, process.argv.slice(2))
  const built = build()
  const outcomes = runInLanes(chosen, (suite) => runSuite(suite, built))
  await built
  let failed = 0
  for (const [suite, outcome] of outcomes) {
    process.stdout.write(`${suite.name.padEnd(15)} `)
    const { result, time } = await outcome
    report(suite, result, time)
    if (!result.passed) failed++
  }
  console.log(`${chosen.length - failed} passed, ${failed} failed`)
  if (failed > 0) process.exitCode = 1
}

/**
 * @param {readonly import('./suites/index.mjs').Suite[]} suites
 * @param {readonly string[]} names empty: all
 */
function chooseSuites(suites, names) {
  const known = suites.map((suite) => suite.name)
  const unknown = names.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new StepError(`no suite ${unknown.join(', ')}; there are ${known.join(', ')}`)
  return names.length === 0 ? suites : suites.filter((suite) => names.includes(suite.name))
}

/**
 * Downloads what the suite needs, waits for the build, and runs the suite. The time does not include the download and the build.
 * @param {import('./suites/index.mjs').Suite} suite
 * @param {Promise<void>} built the build of the addon and the tests
 */
export async function runSuite(suite, built) {
  let started = performance.now()
  const result = await attempt(async () => {
    await suite.fetch?.()
    await built
    started = performance.now()
    const log = join(root, logOf(suite))
    rmSync(log, { force: true })
    return suite.run(log)
  })
  return { result, time: elapsed(started) }
}

/** @param {import('./suites/index.mjs').Suite} suite */
function logOf(suite) {
  return join('out/logs', `${suite.name}.log`)
}

/**
 * Prints the result after the suite's name.
 * @param {import('./suites/index.mjs').Suite} suite
 * @param {import('./suites/index.mjs').SuiteResult} result
 * @param {string} time
 */
function report(suite, { passed, summary, details }, time) {
  process.stdout.write(`${passed ? 'pass' : 'FAIL'} ${time.padStart(8)}  ${summary}\n`)
  if (!passed) console.log(`${indented(details)}\n    whole log: ${logOf(suite)}`)
}

/** @param {() => Promise<import('./suites/index.mjs').SuiteResult>} work */
async function attempt(work) {
  try {
    return await work()
  } catch (error) {
    // A suite that cannot run does not stop the others. Its error is printed.
    return {
      passed: false,
      summary: '',
      details: error instanceof StepError ? error.message : String(error.stack),
    }
  }
}

/** @param {string} text */
function indented(text) {
  return text.trim().replaceAll(/^/gm, '    ')
}

if (isMain(import.meta.url)) await runMain(main)
