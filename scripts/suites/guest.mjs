// The guest suite: one boot, every test that needs IP_VS or the dummy device, then the demo.
import { join } from 'node:path'
import { runGuest } from '../guest.mjs'
import { buildNative, nativeFolder } from '../native-build.mjs'
import { setUpGuest } from '../setup.mjs'
import { step } from '../steps.mjs'
import { compiledTests, inNewNamespace, judge } from './node-tests.mjs'

/** Seconds for the whole boot. Only a hang should meet it, also on a machine that does other work. */
const limitSeconds = 2400

/** The C++ test that needs IP_VS. */
const nativeTest = 'ipvs_kernel_test'

/** Everything that is built: a suite that runs beside this one may then build in the same folder. */
export async function prepareGuestSuite() {
  await setUpGuest()
  await step('guest: its C++ test', () => buildNative([nativeTest]))
}

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function guestSuite(log) {
  const files = [
    ...compiledTests('test/guest', isRefusals), // first: one of its cases needs a kernel that has not loaded IP_VS
    ...compiledTests('test/contract', (path) => path.includes('/kernel-guest')),
    ...compiledTests('test/guest', (path) => !isRefusals(path)),
  ]
  const namespace = inNewNamespace.map((word) => `'${word}'`).join(' ')
  const lines = [
    'failed=0',
    // The files' own processes are enough: `node --test` would start a second Node for each, at the guest's speed.
    ...files.map((file) => `echo "# ${file}"; ${namespace} node --test-reporter=spec ${file} || failed=1`),
    `echo '# ${nativeTest}'; ${namespace} '${join(nativeFolder, nativeTest)}' --gtest_brief=1 || failed=1`,
    `echo '# demo'; ${namespace} node out/ts/test/traffic/demo-manifests.js || failed=1`,
    'exit $failed',
  ]
  return judge(
    await runGuest({ name: 'suite', script: `${lines.join('\n')}\n`, timeoutSeconds: limitSeconds, log }),
  )
}

/** @param {string} path */
function isRefusals(path) {
  return path === 'test/guest/refusals.test.ts'
}
