// The C programs of the benchmarks, and the folder for results.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { must, root, step } from '../steps.mjs'

/** Folder of programs, figures and all other output of a run. */
export const benchFolder = join(root, 'out/bench')

/**
 * @param {string} name of a file in bench/floor
 * @returns {Promise<string>} path of the program
 */
export async function compileProgram(name) {
  const program = join(benchFolder, name)
  mkdirSync(benchFolder, { recursive: true })
  await step(`Compiling bench/floor/${name}.c`, () =>
    must(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, `bench/floor/${name}.c`]),
  )
  return program
}
