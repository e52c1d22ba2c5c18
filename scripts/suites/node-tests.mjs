// Finds compiled node:test files by their sources, runs them, and refuses a run that tested nothing or skipped something.
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { root, run, StepError } from '../steps.mjs'

/** @typedef {{ readonly passed: boolean, readonly summary: string, readonly details: string }} SuiteResult */

/**
 * Throws StepError when there is none: a suite whose test was moved fails, instead of passing without the test.
 * @param {string} folder below the root of the working tree
 * @param {(path: string) => boolean} [wanted] by path from the root
 * @returns {readonly string[]} compiled files of the *.test.ts that exist now (out/ts may hold older ones), sorted
 */
export function compiledTests(folder, wanted) {
  const sources = readdirSync(join(root, folder), { recursive: true })
    .map((name) => `${folder}/${name}`)
    .filter((path) => path.endsWith('.test.ts') && (wanted === undefined || wanted(path)))
  if (sources.length === 0) {
    const which = wanted === undefined ? '' : ` that ${String(wanted)} selects`
    throw new StepError(`no test file in ${folder}${which}`)
  }
  return sources.toSorted().map((path) => `out/ts/${path.slice(0, -'.ts'.length)}.js`)
}

/**
 * @param {readonly string[]} files compiled tests
 * @param {{ log: string, timeoutSeconds: number, env?: Record<string, string>, before?: readonly string[] }} options
 *   `before` is put in front of the command
 * @returns {Promise<SuiteResult>}
 */
export async function runNodeTests(files, options) {
  // Node leaves a core for its runner, which sleeps.
  const jobs = `--test-concurrency=${availableParallelism()}`
  const command = [process.execPath, '--test', jobs, '--test-reporter=spec', ...files]
  const result = await run([...(options.before ?? []), ...command], options)
  return judge(result)
}

/** A namespace of its own for each file: nothing of the machine's, nothing of another file's, `lo` up. */
export const inNewNamespace = ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']

/**
 * @param {{ readonly status: number, readonly output: string }} result of one or more runs with the spec reporter
 * @returns {SuiteResult}
 */
export function judge({ status, output }) {
  const count = (word) =>
    [...output.matchAll(new RegExp(`^ℹ ${word} (\\d+)$`, 'gm'))].reduce(
      (sum, match) => sum + Number(match[1]),
      0,
    )
  const [tests, failed, skipped] = [
    count('tests'),
    count('fail') + count('cancelled'),
    count('skipped') + count('todo'),
  ]
  const summary = `${tests} tests${failed > 0 ? `, ${failed} failed` : ''}${skipped > 0 ? `, ${skipped} skipped` : ''}`
  const passed = status === 0 && tests > 0 && failed === 0 && skipped === 0
  return { passed, summary, details: passed ? '' : failures(output) }
}

/** @param {string} output */
function failures(output) {
  const parts = output.split(/^✖ failing tests:$/m)
  return parts.length > 1 ? parts.slice(1).join('\n') : lastLines(output)
}

/** @param {string} output */
export function lastLines(output) {
  return output.trimEnd().split('\n').slice(-60).join('\n')
}

/**
 * @param {readonly SuiteResult[]} results
 * @returns {SuiteResult}
 */
export function joined(results) {
  return {
    passed: results.every((result) => result.passed),
    summary: results
      .map((result) => result.summary)
      .filter(Boolean)
      .join('; '),
    details: results
      .map((result) => result.details)
      .filter(Boolean)
      .join('\n'),
  }
}
