// Runs clang-tidy 14 over our .cc files, with the compile commands of native/test and, when it has been built, of the
// addon (out of CMake's compile_commands.json). Arguments: files to check instead of all but the tests.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const testBuild = join(root, 'out/native/tidy')

function configure() {
  const args = [
    '-S',
    join(root, 'native/test'),
    '-B',
    testBuild,
    '-G',
    'Ninja',
    '-DCMAKE_CXX_COMPILER=clang++-14',
  ]
  const result = spawnSync('cmake', args, { encoding: 'utf8' })
  if (result.status !== 0) {
    console.error(result.error?.message ?? result.stdout + result.stderr)
    process.exit(1)
  }
}

/** File to the directory of the compile_commands.json that knows it; a file known twice is checked once. */
function collect() {
  const known = new Map()
  for (const directory of [testBuild, join(root, 'build')]) {
    const database = join(directory, 'compile_commands.json')
    if (!existsSync(database)) continue
    for (const entry of JSON.parse(readFileSync(database, 'utf8'))) {
      const name = relative(root, entry.file)
      if (name.startsWith('native/') && !known.has(name)) known.set(name, directory)
    }
  }
  return known
}

function check(name, directory) {
  return new Promise((resolve) => {
    const child = spawn('clang-tidy-14', ['--quiet', '-p', directory, name], { cwd: root })
    let output = ''
    child.stdout.on('data', (chunk) => (output += chunk))
    child.on('error', (error) => resolve(`clang-tidy-14 cannot be run: ${error.message}`))
    child.on('close', (status) => resolve(status === 0 ? '' : output || `${name}: clang-tidy-14 failed`))
  })
}

configure()
const wanted = process.argv.slice(2)
// Not the tests by default: GoogleTest's macros take most of the time, and the sanitizers watch the tests.
const isWanted = ([name]) => (wanted.length === 0 ? !name.startsWith('native/test/') : wanted.includes(name))
const queue = [...collect()].filter(isWanted)
let failed = 0
async function work() {
  for (let next = queue.shift(); next; next = queue.shift()) {
    const report = await check(...next)
    if (report === '') continue
    failed++
    console.error(report)
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, work))
process.exit(failed === 0 ? 0 : 1)
