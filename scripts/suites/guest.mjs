// The guest suite: one boot for all tests that need IP_VS or the dummy device, then the demo.
import { join } from 'node:path'
import { runGuest } from '../guest.mjs'
import { buildNative, nativeFolder } from '../native-build.mjs'
import { compiledTests, inNewNamespace, judge } from './node-tests.mjs'

/** Limit in seconds for the whole boot in `npm test`. Only a hang should reach it, even on a busy machine. */
const usualLimitSeconds = 2400

/** The tests of a kernel that has not loaded netfilter, or IP_VS, in this order: modules that are loaded stay. */
const early = [
  'test/guest/doctor.test.ts',
  'test/guest/without-netfilter.test.ts',
  'test/guest/refusals.test.ts',
  'test/guest/load-ipvs.test.ts',
]

/** The C++ test that needs IP_VS. */
const nativeTest = 'ipvs_kernel_test'

/**
 * @param {string} log
 * @param {string} [kernel] version of the kernel; default: that of the machine's own Debian
 * @param {number} [timeoutSeconds] for the whole boot
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function guestSuite(log, kernel, timeoutSeconds = usualLimitSeconds) {
  await buildNative([nativeTest], { log })
  const files = [
    ...early.flatMap((name) => compiledTests('test/guest', (path) => path === name)),
    ...compiledTests('test/contract', (path) => path.includes('/kernel-guest')),
    ...compiledTests('test/guest', (path) => !early.includes(path)),
  ]
  const namespace = inNewNamespace.map((word) => `'${word}'`).join(' ')
  const lines = [
    'failed=0',
    // Without `node --test`, which would start a second Node per file, which is slow in the guest.
    ...files.map((file) => `echo "# ${file}"; ${namespace} node --test-reporter=spec ${file} || failed=1`),
    `echo '# ${nativeTest}'; ${namespace} '${join(nativeFolder, nativeTest)}' --gtest_brief=1 || failed=1`,
    `echo '# demo'; ${namespace} node out/ts/test/traffic/demo-manifests.js || failed=1`,
    'exit $failed',
  ]
  return judge(
    await runGuest({
      name: 'suite',
      script: `${lines.join('\n')}\n`,
      timeoutSeconds,
      log,
      kernel,
    }),
  )
}
