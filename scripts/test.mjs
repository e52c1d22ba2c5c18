// `npm test`: installs what is missing, builds, and proves the project, one line per suite.
// Usage: node scripts/test.mjs [SUITE...]
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setUp, setUpGuest, setUpImage } from './setup.mjs'
import { elapsed, isMain, root, runMain, StepError } from './steps.mjs'

async function main() {
  await setUp('test')
  const { suites } = await import('./suites/index.mjs') // needs node_modules
  const chosen = chooseSuites(suites, process.argv.slice(2))
  if (chosen.some((suite) => suite.name === 'guest')) await setUpGuest()
  if (chosen.some((suite) => suite.name === 'image')) await setUpImage()
  let failed = 0
  for (const suite of chosen) {
    if (!(await runSuite(suite))) failed++
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
 * @param {import('./suites/index.mjs').Suite} suite
 * @returns {Promise<boolean>} passed
 */
async function runSuite(suite) {
  const started = performance.now()
  const log = join('out/logs', `${suite.name}.log`)
  rmSync(join(root, log), { force: true })
  process.stdout.write(`${suite.name.padEnd(15)} `)
  const { passed, summary, details } = await attempt(suite, join(root, log))
  process.stdout.write(`${passed ? 'pass' : 'FAIL'} ${elapsed(started).padStart(8)}  ${summary}\n`)
  if (!passed) console.log(`${indented(details)}\n    whole log: ${log}`)
  return passed
}

/**
 * @param {import('./suites/index.mjs').Suite} suite
 * @param {string} log
 */
async function attempt(suite, log) {
  try {
    return await suite.run(log)
  } catch (error) {
    // One broken suite does not hide the others; its reason is printed.
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
