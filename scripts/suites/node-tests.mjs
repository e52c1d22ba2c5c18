// Finds compiled node:test files by their sources, runs them, and refuses a run that tested nothing or skipped something.
import { appendFileSync, mkdirSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { elapsed, root, run, StepError } from '../steps.mjs'

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

const untestedFiles = fileURLToPath(new URL('untested-files.mjs', import.meta.url))
const reporters = ['spec', untestedFiles].flatMap((reporter) => [
  `--test-reporter=${reporter}`,
  '--test-reporter-destination=stdout',
])

/** The command that runs the test files after it. `judge` reads its output. */
export const nodeTest = [process.execPath, '--test', ...reporters]

/**
 * @param {readonly string[]} files compiled tests
 * @param {{ log: string, timeoutSeconds: number, env?: Record<string, string>, before?: readonly string[] }} options
 *   `before` is put in front of the command
 * @returns {Promise<SuiteResult>}
 */
export async function runNodeTests(files, options) {
  // Node leaves a core for its runner, which sleeps.
  const jobs = `--test-concurrency=${availableParallelism()}`
  const result = await run([...(options.before ?? []), ...nodeTest, jobs, ...files], options)
  return judge(result)
}

const enterNamespace = [
  'ip link set lo up',
  'lock=$(mktemp)',
  'touch /run/xtables.lock',
  'mount --bind "$lock" /run/xtables.lock',
  'rm "$lock"',
  'exec "$@"',
].join(' && ')

/**
 * Runs the command that follows in a network namespace of its own, with `lo` up, and with its own /run/xtables.lock. The kernel has
 * tables for each namespace, but the iptables tools have one lock for the machine.
 */
export const inNewNamespace = ['unshare', '--net', '--mount', 'sh', '-c', enterNamespace, 'sh']

/**
 * Runs node:test files side by side, each in its own namespace.
 * @param {readonly string[]} files compiled tests; the slowest ones first keep the processors busy to the end
 * @param {{ log: string, timeoutSeconds: number, jobs: number }} options `log` receives the output of a file when the file ends
 * @returns {Promise<SuiteResult>}
 */
export async function runInNamespaces(files, { log, timeoutSeconds, jobs }) {
  const left = [...files]
  const results = []
  const work = async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) {
      const started = performance.now()
      const result = await run([...inNewNamespace, ...nodeTest, file], { timeoutSeconds })
      appendFileSync(log, `$ ${file}\n${result.output}took ${elapsed(started)}\n`)
      results.push(result)
    }
  }
  mkdirSync(dirname(log), { recursive: true })
  await Promise.all(Array.from({ length: jobs }, work))
  const { summary } = judge({ status: 0, output: results.map((result) => result.output).join('\n') })
  return { ...joined(results.map(judge)), summary }
}

/**
 * @param {{ readonly status: number, readonly output: string }} result of one or more runs of `nodeTest`, or of files without
 *   `node --test` and with the spec reporter. A line `# FILE` begins the run of such a file.
 * @returns {SuiteResult} not passed when a test failed or was skipped, or when a file has no test
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
  const empty = filesWithoutTests(output)
  const parts = [
    `${tests} tests`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
    ...empty.map((file) => `no test in ${file}`),
  ]
  const passed = status === 0 && tests > 0 && failed === 0 && skipped === 0 && empty.length === 0
  return { passed, summary: parts.join(', '), details: passed ? '' : failures(output) }
}

/** @param {string} output */
function filesWithoutTests(output) {
  const named = [...output.matchAll(/^ℹ no test in (\S+)$/gm)].map(([, file]) => file)
  const sections = output.split(/^# (?=\S+\.test\.js$)/m).slice(1)
  const silent = sections.filter((text) => !/^ℹ tests [1-9]/m.test(text))
  return [...named, ...silent.map((text) => text.split('\n')[0])]
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
