// The guest suite on several kernels: npm run kernels [-- VERSION...]
// Boots each kernel that scripts/guest.mjs knows, runs the suite of `npm test` there, and prints a table for docs/installing.md. Ends with 1
// if a test fails. Logs: out/logs/guest-VERSION.log. Needs root, and 20 minutes for each kernel on an idle machine.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepareKernel } from './guest/kernel.mjs'
import { requireVersion, versions } from './guest/packages.mjs'
import { setUp } from './setup.mjs'
import { elapsed, isMain, root, runMain, step, StepError } from './steps.mjs'
import { guestSuite } from './suites/guest.mjs'

/** For one kernel. Beside other work, with a load of 15 on two cores, a suite was not done after 46 minutes. */
const limitSeconds = 7200

/** @param {string} version */
async function measure(version) {
  const { folder } = await prepareKernel(version)
  const started = performance.now()
  const result = await suiteOn(version)
  const release = readFileSync(join(folder, 'release'), 'utf8')
  return { ...result, version, release, took: elapsed(started) }
}

/**
 * A guest that does not end is a result as well: the other kernels keep theirs.
 * @param {string} version
 */
async function suiteOn(version) {
  try {
    return await guestSuite(join(root, `out/logs/guest-${version}.log`), version, limitSeconds)
  } catch (error) {
    if (!(error instanceof StepError)) throw error
    return { passed: false, summary: 'not done', details: error.message }
  }
}

async function main() {
  const words = process.argv.slice(2)
  for (const word of words) requireVersion(word)
  await setUp('test')
  /** @type {Awaited<ReturnType<typeof measure>>[]} */
  const results = []
  for (const version of words.length === 0 ? versions : words)
    results.push(await step(`${version}: guest suite`, () => measure(version)))
  const lines = results.map(
    ({ release, passed, summary, took }) =>
      `| ${release} | ${passed ? 'passed' : 'failed'} | ${summary} | ${took} |`,
  )
  console.log(['', '| kernel | result | tests | time |', '|---|---|---|---|', ...lines].join('\n'))
  const failed = results.filter(({ passed }) => !passed)
  if (failed.length > 0)
    throw new StepError(failed.map(({ version, details }) => `${version}:\n${details}`).join('\n'))
}

if (isMain(import.meta.url)) await runMain(main)
