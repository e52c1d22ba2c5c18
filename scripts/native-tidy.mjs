// Runs clang-tidy 14 on our .cc files, with the compile commands of native/test. A file that passed is checked again if the file, a
// header, the command, .clang-tidy or clang-tidy has changed. Arguments: files to check. Default: all except the tests.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { cacheFolder } from './guest/kernel.mjs'
import { configureNative, nativeFolder } from './native-build.mjs'
import { isMain, read, root, run, runMain, StepError } from './steps.mjs'

/** Has an empty file for the fingerprint of every file that passed. */
const passedFolder = join(cacheFolder(), 'tidy')
/** Days until an unused fingerprint is removed. */
const passedDays = 30

/** @typedef {{ readonly name: string, readonly command: string }} Source `name`: its path from the root */

/** @returns {Promise<readonly Source[]>} what native/test compiles */
async function sources() {
  await configureNative()
  const database = JSON.parse(readFileSync(join(nativeFolder, 'compile_commands.json'), 'utf8'))
  return database.map(({ file, command }) => ({ name: relative(root, file), command }))
}

/** @type {Map<string, string>} hash of a file's content, by its path */
const hashes = new Map()

/** @param {string} path */
function hashOf(path) {
  const hash = hashes.get(path) ?? createHash('sha256').update(readFileSync(path)).digest('hex')
  hashes.set(path, hash)
  return hash
}

/**
 * A hash of all inputs of a check: the bytes of all files that the compiler reads, the command, the checks and the program. The path of
 * the working tree is left out, so that other clones share the results.
 * @param {Source} source
 * @param {string} version of clang-tidy
 * @returns {Promise<string>}
 */
async function fingerprint({ name, command }, version) {
  // A rule of make: `all: FILE FILE \ FILE ...`.
  const rule = await read([...withoutOutput(command.split(' ')), '-M', '-MT', 'all'], { cwd: nativeFolder })
  const files = rule.split(/[\s\\]+/).slice(1)
  const contents = files.map((file) => `${file} ${hashOf(resolve(nativeFolder, file))}`)
  const parts = [version, hashOf(join(root, '.clang-tidy')), name, command, ...contents]
  return createHash('sha256').update(parts.join('\n').replaceAll(root, '')).digest('hex')
}

/** @param {readonly string[]} command of the compiler */
function withoutOutput(command) {
  return command.toSpliced(command.indexOf('-o'), 2)
}

/**
 * @param {Source} source
 * @param {string} version of clang-tidy
 * @returns {Promise<boolean>} whether the file passed; otherwise prints the warnings
 */
async function check(source, version) {
  const passed = join(passedFolder, await fingerprint(source, version))
  if (!existsSync(passed)) {
    const { status, output } = await run(['clang-tidy-14', '--quiet', '-p', nativeFolder, source.name])
    if (status !== 0) {
      console.error(output || `${source.name}: clang-tidy-14 ended with ${status}`)
      return false
    }
  }
  writeFileSync(passed, '')
  return true
}

/** Removes fingerprints that were not used for `passedDays`. */
function forgetUnused() {
  const oldest = Date.now() - passedDays * 86_400_000
  for (const name of readdirSync(passedFolder)) {
    const path = join(passedFolder, name)
    if (statSync(path).mtimeMs < oldest) rmSync(path)
  }
}

async function main() {
  const version = await read(['clang-tidy-14', '--version'])
  const wanted = process.argv.slice(2)
  const all = await sources()
  // Not the tests by default: GoogleTest's macros would take most of the time, and the sanitizers check the tests.
  const queue = all.filter(({ name }) =>
    wanted.length === 0 ? !name.startsWith('native/test/') : wanted.includes(name),
  )
  if (queue.length === 0) throw new StepError('no file to check')
  mkdirSync(passedFolder, { recursive: true })
  forgetUnused()
  let failed = 0
  async function work() {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (!(await check(next, version))) failed++
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  if (failed > 0) throw new StepError(`clang-tidy refuses ${failed} files`)
}

if (isMain(import.meta.url)) await runMain(main)
