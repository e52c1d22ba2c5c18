// The guest suite on several kernels: npm run kernels [-- VERSION...]
// Boots each kernel that scripts/guest.mjs knows, runs the suite of `npm test` there, and prints a table for docs/installing.md. Ends with 1
// if a test fails. Logs: out/logs/guest-VERSION.log. Needs root, and about a quarter of an hour for each kernel.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepareKernel } from './guest/kernel.mjs'
import { requireVersion, versions } from './guest/packages.mjs'
import { setUp } from './setup.mjs'
import { elapsed, isMain, root, runMain, step, StepError } from './steps.mjs'
import { guestSuite } from './suites/guest.mjs'

/** @param {string} version */
async function measure(version) {
  const { folder } = await prepareKernel(version)
  const started = performance.now()
  const result = await guestSuite(join(root, `out/logs/guest-${version}.log`), version)
  const release = readFileSync(join(folder, 'release'), 'utf8')
  return { ...result, version, release, took: elapsed(started) }
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
