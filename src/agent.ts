// The program: reads its arguments, and runs the agent or a task.
import {
  cleanUp,
  initialise,
  run,
  runBundle,
  runDoctor,
  runHandOver,
  runPlanCommand,
  writeConfig,
  adviceOn,
} from './agent/index.js'
import { parseArguments } from './cli/index.js'
import { systemClock } from './clock.js'
import { inputWarnings, readConfigFile } from './config/index.js'
import { endWithReaders } from './commands/index.js'
import { openKernel } from './kernel/index.js'
import { openLog, openStandardOutput } from './log.js'
import { writeError } from './log-output.js'
import { followLogSignals, inheritedPortSockets, prepareV8, ServiceManager } from './process/index.js'

async function main(): Promise<number> {
  prepareV8(systemClock)
  const [word, ...words] = process.argv.slice(2)
  if (['bundle', 'diff', 'doctor', 'hand-over', 'plan'].includes(word ?? ''))
    endWithReaders(
      [process.stdout, process.stderr],
      (text) => void process.stderr.write(text),
      (code) => process.exit(code),
    )
  if (word === 'plan' || word === 'diff') return await planOrDiff(word, words)
  if (word === 'doctor')
    return await runDoctor(words, {
      out: writeOutput,
      err: (text) => void process.stderr.write(text),
      environment: process.env,
    })
  if (word === 'bundle')
    return await runBundle(words, {
      stdout: process.stdout,
      err: (text) => void process.stderr.write(text),
      environment: process.env,
    })
  if (word === 'hand-over')
    return await runHandOver(words, {
      out: writeOutput,
      err: (text) => void process.stderr.write(text),
      addonPath: process.env['VIADUCT_ADDON'],
      clock: systemClock,
    })
  const invocation = parseArguments(process.argv.slice(2), readConfigFile)
  if ('exitCode' in invocation) {
    const output = invocation.exitCode === 0 ? process.stdout : process.stderr
    output.write(invocation.text)
    return invocation.exitCode
  }
  const { config, configFile, flagTexts } = invocation
  if (config.writeConfigTo !== undefined) return writeConfig(config, config.writeConfigTo)
  const destination = openStandardOutput()
  const log = openLog({
    format: config.loggingFormat,
    verbosity: config.verbosity,
    destination,
    clock: systemClock,
  })
  followLogSignals(log)
  if (config.verbosity >= 1) log.info('Flags', { flags: flagTexts })
  for (const warning of inputWarnings(config)) log.warn(warning)
  const { VIADUCT_ADDON: addonPath, NOTIFY_SOCKET: managerSocket } = process.env
  const inherited = inheritedPortSockets(process.env, process.pid)
  const portStore = { socket: managerSocket === '' ? undefined : managerSocket, inherited }
  const kernel = openKernel({ addonPath, portStore })
  const manager = new ServiceManager({
    environment: process.env,
    pid: process.pid,
    notify: (socket, state) => kernel.notifyServiceManager(socket, state),
    clock: systemClock,
    log,
  })
  try {
    if (config.cleanup) return await cleanUp(config, kernel)
    if (config.initOnly) return await initialise({ config, flagTexts, kernel, clock: systemClock, log })
    return await run({ config, configFile, flagTexts, kernel, clock: systemClock, log, manager })
  } catch (error) {
    writeError(`viaduct: ${adviceOn(error)}\n`)
    return 1
  } finally {
    await kernel.close()
  }
}

async function planOrDiff(word: 'plan' | 'diff', words: readonly string[]): Promise<number> {
  return await runPlanCommand(word, words, {
    out: writeOutput,
    err: (text) => void process.stderr.write(text),
    addonPath: process.env['VIADUCT_ADDON'],
  })
}

async function writeOutput(text: string): Promise<void> {
  await new Promise<void>((resolve) => {
    process.stdout.write(text, () => resolve())
  })
}

// NB: exit, not exitCode: an open handle must not delay the end. The error of a closed pipe comes first.
void main().then((exitCode) => systemClock.schedule(0, () => process.exit(exitCode)))
