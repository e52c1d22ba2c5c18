// The suites of `npm test`, in order. Quick ones that often fail come first.
import { prepareKernel } from '../guest/kernel.mjs'
import { prepareNftVersions } from '../nft-versions.mjs'
import { prepareBases } from '../image/bases.mjs'
import { prepareTools } from '../packages/tools.mjs'
import { npmBin } from '../setup.mjs'
import { run } from '../steps.mjs'
import { prepareNode } from '../cross/node.mjs'
import { crossSuite } from './cross.mjs'
import { guestSuite } from './guest.mjs'
import { imageSuite } from './image.mjs'
import {
  compiledTests,
  inNewNamespace,
  joined,
  lastLines,
  runInNamespaces,
  runNodeTests,
} from './node-tests.mjs'
import { packagesSuite } from './packages.mjs'

/** @typedef {import('./node-tests.mjs').SuiteResult} SuiteResult */
/**
 * @typedef {object} Suite
 * @property {string} name
 * @property {() => Promise<unknown>} [fetch] downloads what the suite needs and keeps it in the cache folder, while the addon is built
 * @property {string} [lane] the suites of a lane run one after the other, and the lanes at the same time; default: a lane for all others
 * @property {(log: string) => Promise<SuiteResult>} run `log`: the file that receives all output
 */

/** Limit in seconds, far above the usual time. Only a hang reaches it. */
const commandLimit = 900

/** More than processors, because most files mainly wait for time-outs. */
const kernelFilesAtOnce = 3

/** Prettier skips files that passed before with the same content, options and version. */
const prettierCache = ['--cache', '--cache-strategy=content', '--cache-location=out/prettier-cache.json']

/** @type {readonly Suite[]} */
export const suites = [
  {
    name: 'format',
    run: (log) =>
      commands(log, [node(npmBin('prettier'), '--check', ...prettierCache, '.'), script('native-format')]),
  },
  {
    name: 'lint',
    run: (log) =>
      commands(log, [
        node(npmBin('oxlint'), '--type-aware', '--report-unused-disable-directives-severity=error'),
      ]),
  },
  {
    name: 'types',
    run: (log) => commands(log, [node(npmBin('typescript', 'tsc'), '-p', 'tsconfig.json', '--noEmit')]),
  },
  { name: 'unit', run: (log) => runNodeTests(unitTests(), { log, timeoutSeconds: commandLimit }) },
  { name: 'project', run: projectSuite },
  {
    name: 'contract-model',
    run: (log) =>
      runNodeTests(compiledTests('test/contract', isModel), { log, timeoutSeconds: commandLimit }),
  },
  { name: 'kernel', fetch: prepareNftVersions, run: kernelSuite },
  { name: 'page', run: pageSuite },
  { name: 'addon-exports', run: (log) => commands(log, [script('addon-exports')]) },
  { name: 'addon-sanitize', run: (log) => commands(log, [script('addon-sanitize')]) },
  { name: 'native', run: (log) => commands(log, [script('native-test')]) },
  { name: 'tidy', run: (log) => commands(log, [script('native-tidy')]) },
  { name: 'fuzz', run: (log) => commands(log, [script('native-test', '--fuzz', '90')]) },
  { name: 'cross', fetch: prepareNode, run: crossSuite },
  // Mainly copies files and waits for npm's registry.
  { name: 'image', fetch: prepareBases, run: imageSuite },
  { name: 'packages', fetch: prepareTools, run: packagesSuite },
  // The guest mostly uses one processor. The other suites use the rest of the machine.
  { name: 'guest', lane: 'guest', fetch: prepareKernel, run: guestSuite },
]

/** @param {readonly string[]} args */
function node(...args) {
  return [process.execPath, ...args]
}

/**
 * @param {string} name of a file in scripts/
 * @param {readonly string[]} args
 */
function script(name, ...args) {
  return node(`scripts/${name}.mjs`, ...args)
}

/**
 * Runs commands one after the other, even after a failure.
 * @param {string} log
 * @param {readonly (readonly string[])[]} list
 * @returns {Promise<SuiteResult>}
 */
async function commands(log, list) {
  const results = []
  for (const command of list) {
    const { status, output } = await run(command, { log, timeoutSeconds: commandLimit })
    results.push({ passed: status === 0, summary: '', details: status === 0 ? '' : lastLines(output) })
  }
  return joined(results)
}

/**
 * The status page of the bundled agent in Chromium.
 * @param {string} log
 */
function pageSuite(log) {
  return runInNamespaces(compiledTests('test/page'), { log, timeoutSeconds: commandLimit, jobs: 1 })
}

/** @param {string} path */
function isModel(path) {
  return !path.includes('/kernel-')
}

/** @param {string} path */
function isTraffic(path) {
  return path.startsWith('test/kernel/traffic-')
}

/** Tests that need no kernel: of single rooms, and of all rooms on the model. */
function unitTests() {
  const rooms = compiledTests('test/unit', (path) => !path.startsWith('test/unit/project/'))
  return [...rooms, ...compiledTests('test/scenario')]
}

/**
 * Import graph, documents, sizes.
 * @param {string} log
 */
async function projectSuite(log) {
  const tests = await runNodeTests(compiledTests('test/unit/project'), { log, timeoutSeconds: commandLimit })
  return joined([tests, await commands(log, [script('sizes')])])
}

/**
 * The tests that this machine's kernel can run, each file in its own network namespace, then the first part of the demo.
 * @param {string} log
 */
async function kernelSuite(log) {
  const files = [
    ...compiledTests('test/kernel', isTraffic), // the slowest first
    ...compiledTests('test/contract', (path) => path === 'test/contract/kernel-host.test.ts'),
    ...compiledTests('test/kernel', (path) => !isTraffic(path)),
  ]
  const tests = await runInNamespaces(files, { log, timeoutSeconds: commandLimit, jobs: kernelFilesAtOnce })
  const demo = [...inNewNamespace, ...node('out/ts/test/traffic/demo-api.js')]
  return joined([tests, await commands(log, [demo])])
}
