// The C programs of the benchmarks, and the folder for results.
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { must, root, run, step, StepError } from '../steps.mjs'

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

/**
 * Runs one part of a benchmark in its own process, with its own folder, which also holds the lock of the tables. Otherwise programs
 * in other namespaces of the machine would use the same lock file.
 * @param {'api' | 'iptables' | 'iptables-nft' | 'nftables' | 'relay' | 'takeovers'} benchmark
 * @param {readonly string[]} args of out/ts/bench/BENCHMARK/run.js, the name of the part first
 * @param {{ readonly limitSeconds: number }} options
 * @returns {Promise<any>} its figures
 */
export async function measurePart(benchmark, args, { limitSeconds }) {
  const folder = join(benchFolder, benchmark)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  try {
    const command = [process.execPath, join(root, `out/ts/bench/${benchmark}/run.js`), ...args]
    const env = { TMPDIR: folder, XTABLES_LOCKFILE: join(folder, 'xtables.lock') }
    const { status, output } = await run(command, { env, timeoutSeconds: limitSeconds })
    const lines = output.trim().split('\n')
    if (status !== 0) throw new StepError(`part ${args[0]} ended with ${status}:\n${lines.join('\n')}`)
    return JSON.parse(lines.at(-1) ?? '')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
