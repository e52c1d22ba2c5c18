// Builds the C++ tests with AddressSanitizer and UBSan and runs them. With `--fuzz SECONDS` runs the libFuzzer targets instead, for that
// time summed over all cores: 21600 gives each target half an hour. `--target NAME` runs one of them. With `--keep` too, inputs that
// reach new code are then added to native/test/fuzz/corpus. The first failure ends the run; the input that causes it is in
// out/native/finds.
import { existsSync, mkdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildNative, nativeFolder } from './native-build.mjs'
import { isMain, must, root, run, runMain, StepError } from './steps.mjs'

/** The targets, as in native/test/CMakeLists.txt. */
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
 * Runs one target: all inputs of its corpus, and new ones until the time is over. Throws StepError with its output if it finds an error.
 * @param {string} name
 * @param {{ seconds: number, keep: boolean }} options `keep`: see above
 */
async function fuzzTarget(name, { seconds, keep }) {
  const program = join(nativeFolder, `${name}_fuzz`)
  const finds = join(root, 'out/native/finds', name)
  mkdirSync(join(finds, 'inputs'), { recursive: true })
  const corpus = join(root, 'native/test/fuzz/corpus', name)
  if (!existsSync(corpus)) throw new StepError(`${corpus} is missing`)
  const quiet = ['-max_len=4096', '-verbosity=0', '-print_final_stats=0', `-artifact_prefix=${finds}/`]
  /** @param {readonly string[]} command */
  const runTarget = async (...command) => {
    const { status, output } = await run([program, ...quiet, ...command])
    if (status !== 0) throw new StepError(`${name}: ${output}`)
  }
  await runTarget(`-max_total_time=${seconds}`, join(finds, 'inputs'), corpus)
  // Without counters: an input stays if it reaches new code, not if it reaches it more often. So the corpus stays small.
  if (keep) await runTarget('-merge=1', '-use_counters=0', corpus, join(finds, 'inputs'))
}

/**
 * Runs one target per core at a time.
 * @param {readonly string[]} targets
 * @param {{ seconds: number, keep: boolean }} options `seconds`: of all targets together
 */
async function fuzz(targets, { seconds, keep }) {
  await buildNative(targets.map((name) => `${name}_fuzz`))
  const each = Math.max(1, Math.floor(seconds / targets.length))
  const queue = [...targets]
  async function work() {
    for (let next = queue.shift(); next !== undefined; next = queue.shift())
      await fuzzTarget(next, { seconds: each, keep })
  }
  // After an error the other cores start no further target.
  await Promise.all(Array.from({ length: availableParallelism() }, work)).finally(() => queue.splice(0))
  console.log(`fuzzed ${targets.length} targets for ${each} s each, no find`)
}

async function main() {
  const { values } = parseArgs({
    options: {
      fuzz: { type: 'string' },
      target: { type: 'string' },
      keep: { type: 'boolean', default: false },
    },
  })
  const { fuzz: seconds, target, keep } = values
  if (seconds === undefined) return test()
  if (!/^[1-9]\d*$/.test(seconds)) throw new StepError('--fuzz takes a whole number of seconds')
  if (target !== undefined && !fuzzers.includes(target))
    throw new StepError(`--target takes one of ${fuzzers.join(', ')}`)
  return fuzz(target === undefined ? fuzzers : [target], { seconds: Number(seconds), keep })
}

if (isMain(import.meta.url)) await runMain(main)
