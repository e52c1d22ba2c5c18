// Runs commands and prints one line with the time of each step. Uses only Node, because no package may be installed yet.
import { spawn } from 'node:child_process'
import { createWriteStream, mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Root of the working tree. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/** An error for the user, printed without a stack. */
export class StepError extends Error {
  name = 'StepError'
}

/**
 * @typedef {object} RunOptions
 * @property {string} [cwd] default: the root of the working tree
 * @property {Record<string, string | undefined>} [env] added to this process's environment
 * @property {string} [log] file that receives both outputs
 * @property {number} [timeoutSeconds] afterwards the process group is killed
 * @property {(text: string) => void} [onOutput] receives both outputs at once
 */
/**
 * @typedef {object} RunResult
 * @property {number} status 124: out of time; 127: not found
 * @property {string} output both outputs, in order
 * @property {string} stdout
 */

/** Running process groups, to be killed at the end of this process. */
const groups = new Set()

/** @param {number} pid */
function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

process.on('exit', () => groups.forEach(killGroup))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => process.exit(130))
}

/**
 * Runs a command to its end, without a terminal. Does not throw if the command fails.
 * @param {readonly string[]} command
 * @param {RunOptions} [options]
 * @returns {Promise<RunResult>}
 */
export function run(command, options = {}) {
  const [file, ...args] = command
  return new Promise((settle) => {
    let output = ''
    let stdout = ''
    let timer
    const log = options.log === undefined ? undefined : openLog(options.log, command)
    const child = spawn(file, args, {
      cwd: options.cwd ?? root,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // its own process group, so that a time-out also kills its children
    })
    if (child.pid !== undefined) groups.add(child.pid)
    const take = (text) => {
      output += text
      log?.write(text)
      options.onOutput?.(text)
    }
    const finish = (status) => {
      clearTimeout(timer)
      groups.delete(child.pid)
      if (log === undefined) settle({ status, output, stdout })
      else log.end(() => settle({ status, output, stdout }))
    }
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text
      take(text)
    })
    child.stderr.setEncoding('utf8').on('data', take)
    child.on('error', (error) => {
      take(`${file}: ${error.message}\n`)
      finish(127)
    })
    let timedOut = false
    child.on('close', (code) => finish(timedOut ? 124 : (code ?? 137)))
    if (options.timeoutSeconds !== undefined) {
      timer = setTimeout(() => {
        timedOut = true
        take(`\nout of time after ${options.timeoutSeconds} s\n`)
        killGroup(child.pid)
      }, options.timeoutSeconds * 1000)
    }
  })
}

/**
 * @param {string} path
 * @param {readonly string[]} command
 */
function openLog(path, command) {
  mkdirSync(dirname(path), { recursive: true })
  const log = createWriteStream(path, { flags: 'a' })
  log.write(`$ ${command.join(' ')}\n`)
  return log
}

/**
 * Runs a command. Throws StepError if it fails.
 * @param {readonly string[]} command
 * @param {RunOptions} [options]
 * @returns {Promise<string>} both its outputs
 */
export async function must(command, options) {
  const { output } = await succeed(command, options)
  return output
}

/**
 * The standard output of a command, without the warnings on its standard error.
 * @param {readonly string[]} command whose failure ends the step
 * @param {RunOptions} [options]
 * @returns {Promise<string>} without blanks at its ends
 */
export async function read(command, options) {
  const { stdout } = await succeed(command, options)
  return stdout.trim()
}

/**
 * @param {readonly string[]} command
 * @param {RunOptions} [options]
 */
async function succeed(command, options) {
  const result = await run(command, options)
  if (result.status === 0) return result
  throw new StepError(`${command.join(' ')} ended with ${result.status}:\n${result.output.trimEnd()}`)
}

/** @param {number} startedMs */
export function elapsed(startedMs) {
  return `${((performance.now() - startedMs) / 1000).toFixed(1)} s`
}

/**
 * Prints `title ...`, runs the work, and prints its time or its failure.
 * @template T
 * @param {string} title
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(title, work) {
  const started = performance.now()
  process.stdout.write(`${title} ... `)
  try {
    const value = await work()
    process.stdout.write(`${elapsed(started)}\n`)
    return value
  } catch (error) {
    process.stdout.write(`failed after ${elapsed(started)}\n`)
    throw error
  }
}

/**
 * Runs a script's main function. For a StepError prints the message and sets exit code 1.
 * @param {() => Promise<void>} main
 */
export async function runMain(main) {
  try {
    await main()
  } catch (error) {
    if (!(error instanceof StepError)) throw error
    console.error(`error: ${error.message}`)
    process.exitCode = 1
  }
}

/**
 * @param {string} moduleUrl import.meta.url of the script
 * @returns {boolean} whether the script was started, rather than imported
 */
export function isMain(moduleUrl) {
  return process.argv[1] !== undefined && resolve(process.argv[1]) === fileURLToPath(moduleUrl)
}
