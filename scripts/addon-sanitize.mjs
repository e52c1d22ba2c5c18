// Builds the addon with AddressSanitizer and UBSan, and runs node:test files on it in their own network namespace.
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
  // The process must load the runtime before all other libraries.
  const runtime = await read([compiler, '-print-file-name=libclang_rt.asan-x86_64.so'])
  const tests = process.argv.length > 2 ? process.argv.slice(2) : defaultTests()
  const { status, output } = await run([...inNewNamespace, process.execPath, '--test', ...tests], {
    timeoutSeconds: limitSeconds,
    env: {
      VIADUCT_ADDON: addon,
      LD_PRELOAD: runtime,
      // No leak detection, because Node does not free all memory at its end. addon-life.test.ts limits the growth of memory instead. A
      // large quarantine of freed memory would exceed its limit.
      ASAN_OPTIONS: 'detect_leaks=0:quarantine_size_mb=1',
      UBSAN_OPTIONS: 'print_stacktrace=1',
    },
  })
  process.stdout.write(output)
  if (status !== 0) throw new StepError(`the tests on ${addon} ended with ${status}`)
}

if (isMain(import.meta.url)) await runMain(main)
