// Builds the addon with AddressSanitizer and UBSan, and runs node:test files on it in a network namespace of their own.
// Usage: node scripts/addon-sanitize.mjs [COMPILED-TEST...]; default: the addon's own tests and the host's contract.
import { join } from 'node:path'
import { isMain, must, root, run, runMain, StepError } from './steps.mjs'
import { compiledTests, inNewNamespace } from './suites/node-tests.mjs'

/** Seconds; far above what the tests need. */
const limitSeconds = 600

async function build() {
  const folder = join(root, 'build-asan')
  await must(['cmake', '-S', root, '-B', folder, '-G', 'Ninja', '-DVIADUCT_SANITIZE=ON'])
  await must(['cmake', '--build', folder])
  return join(folder, 'viaduct.node')
}

function defaultTests() {
  return [
    ...compiledTests('test/unit/kernel'),
    ...compiledTests('test/contract', (path) => path.includes('/kernel-host')),
  ]
}

async function main() {
  const addon = await build()
  // The runtime has to come before everything else that the process loads.
  const runtime = (await must(['g++', '-print-file-name=libasan.so'])).trim()
  const tests = process.argv.length > 2 ? process.argv.slice(2) : defaultTests()
  const { status, output } = await run([...inNewNamespace, process.execPath, '--test', ...tests], {
    timeoutSeconds: limitSeconds,
    env: {
      VIADUCT_ADDON: addon,
      LD_PRELOAD: runtime,
      // Node leaves memory to the end of the process: addon-life.test.ts holds leaks against a bound instead, which a
      // large quarantine of freed memory would break.
      ASAN_OPTIONS: 'detect_leaks=0:quarantine_size_mb=1',
      UBSAN_OPTIONS: 'print_stacktrace=1',
    },
  })
  process.stdout.write(output)
  if (status !== 0) throw new StepError(`the tests on ${addon} ended with ${status}`)
}

if (isMain(import.meta.url)) await runMain(main)
