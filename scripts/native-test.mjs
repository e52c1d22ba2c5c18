// Builds native/test under AddressSanitizer and UBSan and runs it; with `--fuzz SECONDS` spends that time, of all cores
// together, on the libFuzzer targets instead. The first failure ends the run.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const source = join(root, 'native/test')
const fuzzers = [
  'conntrack_message',
  'error',
  'ipset_message',
  'ipvs_message',
  'ipvs_option',
  'message',
  'nft_message',
  'route_event',
  'route_message',
  'xtables_image',
]
/** Each in a network namespace of its own. */
const kernelTests = ['route_kernel_test', 'xtables_kernel_test']

function run(command, args) {
  const result = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (result.status === 0) return
  console.error(result.error ? `${command}: ${result.error.message}` : `${command} ${args.join(' ')} failed`)
  process.exit(1)
}

/** Shows the output only of a command that fails. */
function runQuietly(command, args) {
  const result = spawnSync(command, args, { cwd: root, encoding: 'utf8' })
  if (result.status === 0) return
  console.error(result.error ? `${command}: ${result.error.message}` : result.stdout + result.stderr)
  process.exit(1)
}

function isInstalled(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0
}

function build(name, options) {
  const directory = join(root, 'out/native', name)
  mkdirSync(directory, { recursive: true })
  runQuietly('cmake', ['-S', source, '-B', directory, '-G', 'Ninja', ...options])
  runQuietly('ninja', ['-C', directory])
  return directory
}

function test() {
  const compiler = isInstalled('g++') ? 'g++' : 'clang++-14'
  const directory = build('test', [`-DCMAKE_CXX_COMPILER=${compiler}`])
  run(join(directory, 'native_test'), ['--gtest_brief=1'])
  if (process.getuid() !== 0) {
    console.error('the kernel tests need root: each makes a network namespace of its own')
    process.exit(1)
  }
  for (const name of kernelTests) run('unshare', ['-n', join(directory, name), '--gtest_brief=1'])
}

/**
 * Resolves when the target has found nothing for so long.
 * @param {AbortSignal} signal ends it earlier
 */
function fuzzTarget(directory, name, seconds, signal) {
  const finds = join(root, 'out/native/finds', name)
  mkdirSync(finds, { recursive: true })
  const corpus = join(source, 'fuzz/corpus', name)
  if (!existsSync(corpus)) throw new Error(`${corpus} is missing`)
  const limits = [`-max_total_time=${seconds}`, '-max_len=4096', '-verbosity=0', '-print_final_stats=0']
  const args = [...limits, `-artifact_prefix=${finds}/`, finds, corpus]
  return new Promise((resolve, reject) => {
    const child = spawn(join(directory, `${name}_fuzz`), args, { cwd: root, signal })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    child.on('error', reject)
    child.on('close', (status) => (status === 0 ? resolve() : reject(new Error(`${name}: ${output}`))))
  })
}

/** Each core has a target at a time. */
async function fuzz(seconds) {
  const directory = build('fuzz', ['-DCMAKE_CXX_COMPILER=clang++-14', '-DVIADUCT_FUZZ=ON'])
  const each = Math.max(1, Math.floor(seconds / fuzzers.length))
  const queue = [...fuzzers]
  const find = new AbortController()
  async function work() {
    for (let next = queue.shift(); next !== undefined; next = queue.shift())
      await fuzzTarget(directory, next, each, find.signal)
  }
  try {
    await Promise.all(Array.from({ length: availableParallelism() }, work))
  } catch (error) {
    console.error(error.message)
    find.abort() // the targets on the other cores
    process.exit(1)
  }
  console.log(`fuzzed ${fuzzers.length} targets for ${each} s each, no find`)
}

const { values } = parseArgs({ options: { fuzz: { type: 'string' } } })
if (values.fuzz === undefined) test()
else if (/^[1-9]\d*$/.test(values.fuzz)) await fuzz(Number(values.fuzz))
else {
  console.error('--fuzz takes a whole number of seconds')
  process.exit(2)
}
