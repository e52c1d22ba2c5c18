// Builds the addon under AddressSanitizer and UBSan, and runs node:test files on it in a network namespace of their own.
// Usage: node scripts/addon-sanitize.mjs [COMPILED-TEST...]; default: the addon's own tests and the host's contract.
import { join } from 'node:path'
import { buildNative, compiler, nativeFolder } from './native-build.mjs'
import { isMain, read, run, runMain, StepError } from './steps.mjs'
import { compiledTests, inNewNamespace } from './suites/node-tests.mjs'

/** Seconds; far above what the tests need. */
const limitSeconds = 600

function defaultTests() {
  return [
    ...compiledTests('test/unit/kernel'),
    ...compiledTests('test/contract', (path) => path.includes('/kernel-host')),
  ]
}

async function main() {
  await buildNative(['viaduct'])
  const addon = join(nativeFolder, 'viaduct.node')
  // The runtime has to come before everything else that the process loads.
  const runtime = await read([compiler, '-print-file-name=libclang_rt.asan-x86_64.so'])
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
