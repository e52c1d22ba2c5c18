// Builds the C++ tests with AddressSanitizer and UBSan and runs them. With `--fuzz SECONDS` runs the libFuzzer targets instead, for that
// time summed over all cores. The first failure ends the run.
import { existsSync, mkdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildNative, nativeFolder } from './native-build.mjs'
import { isMain, must, root, run, runMain, StepError } from './steps.mjs'

const fuzzers = [
  'conntrack_message',
  'error',
  'ipset_message',
  'ipvs_message',
  'ipvs_option',
  'listener_message',
  'message',
  'nft_message',
  'nft_object',
  'route_event',
  'route_message',
  'xtables_image',
]
/** Tests that run in their own network namespaces. */
const kernelTests = ['ports_kernel_test', 'route_kernel_test', 'xtables_kernel_test']

async function test() {
  if (process.getuid() !== 0)
    throw new StepError('the kernel tests need root: each makes a network namespace of its own')
  await buildNative(['native_test', ...kernelTests])
  const programs = [
    [join(nativeFolder, 'native_test')],
    ...kernelTests.map((name) => ['unshare', '-n', join(nativeFolder, name)]),
  ]
  for (const program of programs) process.stdout.write(await must([...program, '--gtest_brief=1']))
}

/**
 * Runs one target. Throws StepError with its output if it finds an error.
 * @param {string} name
 * @param {number} seconds
 */
async function fuzzTarget(name, seconds) {
  const finds = join(root, 'out/native/finds', name)
  mkdirSync(finds, { recursive: true })
  const corpus = join(root, 'native/test/fuzz/corpus', name)
  if (!existsSync(corpus)) throw new StepError(`${corpus} is missing`)
  const limits = [`-max_total_time=${seconds}`, '-max_len=4096', '-verbosity=0', '-print_final_stats=0']
  const { status, output } = await run([
    join(nativeFolder, `${name}_fuzz`),
    ...limits,
    `-artifact_prefix=${finds}/`,
    finds,
    corpus,
  ])
  if (status !== 0) throw new StepError(`${name}: ${output}`)
}

/** Runs one target per core at a time. @param {number} seconds */
async function fuzz(seconds) {
  await buildNative(fuzzers.map((name) => `${name}_fuzz`))
  const each = Math.max(1, Math.floor(seconds / fuzzers.length))
  const queue = [...fuzzers]
  async function work() {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await fuzzTarget(next, each)
  }
  // After an error the other cores start no further target.
  await Promise.all(Array.from({ length: availableParallelism() }, work)).finally(() => queue.splice(0))
  console.log(`fuzzed ${fuzzers.length} targets for ${each} s each, no find`)
}

async function main() {
  const { values } = parseArgs({ options: { fuzz: { type: 'string' } } })
  if (values.fuzz === undefined) return test()
  if (!/^[1-9]\d*$/.test(values.fuzz)) throw new StepError('--fuzz takes a whole number of seconds')
  return fuzz(Number(values.fuzz))
}

if (isMain(import.meta.url)) await runMain(main)
