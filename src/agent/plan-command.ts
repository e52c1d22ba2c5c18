// `viaduct plan` and `viaduct diff`. Both plan a start of the agent: diff with the configuration of the running agent.
import { parseArguments, parsePlanArguments, type PlanArguments } from '../cli/index.js'
import { systemClock } from '../clock.js'
import { askingAt, CommandError } from '../commands/index.js'
import { type Config, readConfig, readConfigFile, resolveConfig } from '../config/index.js'
import { defaultControlSocket } from '../control-socket.js'
import { printTransactions, refusedSettings } from '../inspect/index.js'
import { KernelModules, type KernelTransaction, openKernel } from '../kernel/index.js'
import { type AdjustableLog, openLog } from '../log.js'
import { adviceOn } from './advice.js'
import { ownersOf } from './owners.js'
import { plan } from './plan.js'
import { printDiff, printPlan, type PlanReport, reportPlan } from './print-plan.js'

export interface PlanIo {
  /** Resolves when the text is written: the process ends by exit(), which does not wait for a pipe. */
  readonly out: (text: string) => Promise<void>
  readonly err: (text: string) => void
  /** The addon's file; undefined: beside the program. */
  readonly addonPath: string | undefined
}

interface Configured {
  readonly config: Config
  readonly flagTexts: Readonly<Record<string, string>>
}

/** The command prints this text instead: a mistake in the arguments, or the version. */
type NoPlan = { readonly problem: string } | { readonly version: string }

/** Runs the command. Resolves with the exit code: 0, also for a plan with changes; 1: an error, or differences; 2: wrong arguments; 3: no agent. */
export async function runPlanCommand(
  word: 'plan' | 'diff',
  argv: readonly string[],
  io: PlanIo,
): Promise<number> {
  const own = parsePlanArguments(argv, defaultControlSocket)
  if ('problem' in own) return usage(io, word, own.problem)
  try {
    const configured = word === 'plan' ? readFlags(own) : await askAgent(own)
    if ('version' in configured) {
      await io.out(configured.version)
      return 0
    }
    if ('problem' in configured) return usage(io, word, configured.problem)
    const report = await makeReport(word, configured, own, io)
    await io.out(await format(word, report, own.output))
    return word === 'diff' && report.hasChanges ? 1 : 0
  } catch (error) {
    const isClient = error instanceof CommandError
    io.err(`viaduct: ${isClient ? error.message : adviceOn(error)}\n`)
    return isClient ? error.exitCode : 1
  }
}

function usage({ err }: PlanIo, word: string, problem: string): number {
  err(`viaduct: ${problem} (see viaduct help ${word})\n`)
  return 2
}

/** The configuration that an agent with these flags would have. */
function readFlags({ flags }: Pick<PlanArguments, 'flags'>): Configured | NoPlan {
  const invocation = parseArguments(flags, readConfigFile)
  if (!('exitCode' in invocation)) return invocation
  return invocation.exitCode === 0 ? { version: invocation.text } : { problem: invocation.problem }
}

/** The configuration of the running agent, with its active mode. Throws CommandError. */
async function askAgent({ flags, socket }: PlanArguments): Promise<Configured | NoPlan> {
  const [first] = flags
  if (first === '--version') return readFlags({ flags: [first] })
  if (first !== undefined)
    return { problem: `unexpected argument "${first}": diff takes no flags of the agent` }
  const { documents, mode, node } = await askingAt(socket)('configuration')
  const input = readConfig(socket, Buffer.from(documents), { isStrict: false })
  return { config: resolveConfig({ ...input, mode, hostnameOverride: node }), flagTexts: {} }
}

async function makeReport(
  word: 'plan' | 'diff',
  { config, flagTexts }: Configured,
  { isSummary, timeoutMs }: PlanArguments,
  io: PlanIo,
): Promise<PlanReport> {
  const transactions: KernelTransaction[] = []
  const kernel = openKernel({ addonPath: io.addonPath, dryRun: (each) => void transactions.push(each) })
  try {
    const warnings: Warning[] = []
    const log = problemLog(io, warnings)
    const planning = plan({ config, flagTexts, kernel, clock: systemClock, log, timeoutMs })
    const planned = await planning.catch((error: unknown) => {
      for (const { write } of warnings) write()
      throw error
    })
    // The running agent has logged its warnings, and the report has the fallback.
    for (const { write, isFallback } of word === 'diff' ? [] : warnings) if (!isFallback) write()
    const operations = printTransactions(transactions)
    const owners = word === 'diff' && operations.length > 0 ? ownersOf(planned.desired) : undefined
    return reportPlan(
      { ...planned, operations, refusedSettings: refusedSettings(transactions) },
      {
        isSummary,
        modulesNotLoaded: new KernelModules().notLoaded(),
        ...(owners === undefined ? {} : { serviceOf: owners }),
      },
    )
  } finally {
    await kernel.close()
  }
}

/** A warning of the planned start. */
interface Warning {
  /** It says that another mode runs than the configured one. */
  readonly isFallback: boolean
  /** Writes it to standard error. */
  readonly write: () => void
}

/** A log that writes errors to standard error, and keeps warnings. */
function problemLog({ err }: PlanIo, warnings: Warning[]): AdjustableLog {
  const destination = { write: (line: string) => err(line) }
  const log = openLog({ format: 'text', verbosity: 0, destination, clock: systemClock })
  return {
    error: (message, fields) => log.error(message, fields),
    warn: (message, fields) => {
      // The report has the settings that this process may not write.
      if (fields?.['setting'] === undefined)
        warnings.push({
          isFallback: fields?.['fallback'] !== undefined,
          write: () => log.warn(message, fields),
        })
    },
    info: () => {},
    debug: () => {},
    trace: () => {},
    writes: () => false,
    verbosity: 0,
    setVerbosity: () => {},
  }
}

async function format(
  word: 'plan' | 'diff',
  report: PlanReport,
  output: PlanArguments['output'],
): Promise<string> {
  if (output === 'json') return `${JSON.stringify(report, undefined, 2)}\n`
  if (output === 'table') return word === 'plan' ? printPlan(report) : printDiff(report)
  const { dump } = await import('js-yaml')
  return dump(report, { noRefs: true, lineWidth: -1 })
}
