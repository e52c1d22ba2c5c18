// The guest suite: one boot for all tests that need IP_VS or the dummy device, then the demo.
import { join } from 'node:path'
import { runGuest } from '../guest.mjs'
import { buildNative, nativeFolder } from '../native-build.mjs'
import { compiledTests, inNewNamespace, judge } from './node-tests.mjs'

/** Limit in seconds for the whole boot. Only a hang should reach it, even on a busy machine. */
const limitSeconds = 2400

/** The C++ test that needs IP_VS. */
const nativeTest = 'ipvs_kernel_test'

/** As many as the guest has processors. Most files wait for starts of programs and for time-outs. */
const filesAtOnce = 2

/** Tests that unload modules or keep the kernel from loading them. The first one needs a kernel that has not loaded IP_VS. */
const alone = ['test/guest/refusals.test.ts', 'test/guest/ipvs-sets.test.ts']

/** Tests that take minutes. They start first and keep the processors busy to the end. */
const slow = ['traffic-ipvs', 'takeover-ipvs', 'traffic-sctp', 'graceful-termination'].map(
  (name) => `test/guest/${name}.test.ts`,
)

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function guestSuite(log) {
  await buildNative([nativeTest], { log })
  const namespace = inNewNamespace.map((word) => `'${word}'`).join(' ')
  const command = (title, line) => `echo '# ${title}'; ${namespace} ${line}`
  // Without `node --test`, which would start a second Node per file, which is slow in the guest.
  const test = (file) => command(file, `node --test-reporter=spec ${file}`)
  const script = batchScript([
    { commands: alone.flatMap(compiledTest).map(test), atOnce: 1 },
    {
      commands: [
        ...slow.flatMap(compiledTest).map(test),
        ...compiledTests('test/contract', (path) => path.includes('/kernel-guest')).map(test),
        ...compiledTests('test/guest', (path) => ![...alone, ...slow].includes(path)).map(test),
        command(nativeTest, `'${join(nativeFolder, nativeTest)}' --gtest_brief=1`),
        command('demo', 'node out/ts/test/traffic/demo-manifests.js'),
      ],
      atOnce: filesAtOnce,
    },
  ])
  return judge(await runGuest({ name: 'suite', script, timeoutSeconds: limitSeconds, log }))
}

/**
 * @param {readonly { readonly commands: readonly string[], readonly atOnce: number }[]} batches run one after the other; `commands`:
 *   lines of sh
 * @returns {string} a script of sh that runs all commands and prints the output of each when it ends. Its status is not 0 if one failed.
 */
export function batchScript(batches) {
  const lines = batches.flatMap(({ commands, atOnce }) => [
    `xargs -d '\\n' -n 1 -P ${atOnce} sh -c "$run" "$lock" <<'commands' || failed=1`,
    ...commands,
    'commands',
  ])
  const run =
    'output=$(mktemp); sh -c "$1" > "$output" 2>&1; status=$?; flock "$0" cat "$output"; rm "$output"; test "$status" = 0'
  return ['failed=0', 'lock=$(mktemp)', `run='${run}'`, ...lines, 'rm "$lock"', 'exit "$failed"', ''].join(
    '\n',
  )
}

/** @param {string} path of a test in test/guest */
function compiledTest(path) {
  return compiledTests('test/guest', (other) => other === path)
}
