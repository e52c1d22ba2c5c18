// Builds native/test: the C++ core once with AddressSanitizer and UBSan, and with it the C++ tests, the fuzzers and an addon.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { must, root } from './steps.mjs'

/** The folder of the build: its programs, and compile_commands.json. */
export const nativeFolder = join(root, 'out/native/sanitized')

/** Fuzzing and clang-tidy need clang. It builds the sanitized code in half the time of g++. */
export const compiler = 'clang++-14'

/**
 * Writes the build files and compile_commands.json.
 * @param {import('./steps.mjs').RunOptions} [options]
 */
export async function configureNative(options) {
  const generator = ['-G', 'Ninja', `-DCMAKE_CXX_COMPILER=${compiler}`]
  await mustAlone(['cmake', '-S', join(root, 'native/test'), '-B', nativeFolder, ...generator], options)
}

/**
 * @param {readonly string[]} targets of native/test/CMakeLists.txt
 * @param {import('./steps.mjs').RunOptions} [options]
 */
export async function buildNative(targets, options) {
  await configureNative(options)
  await mustAlone(['ninja', '-C', nativeFolder, ...targets], options)
}

/**
 * Runs a command that writes into the folder. It first waits for the end of other such commands, because suites run side by side.
 * @param {readonly string[]} command
 * @param {import('./steps.mjs').RunOptions} [options]
 */
async function mustAlone(command, options) {
  mkdirSync(dirname(nativeFolder), { recursive: true })
  await must(['flock', `${nativeFolder}.lock`, ...command], options)
}
