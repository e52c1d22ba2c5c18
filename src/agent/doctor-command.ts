// `viaduct doctor`: reads the node, runs the checks, and prints what they found.
import { type DoctorArguments, parseArguments, parseDoctorArguments } from '../cli/index.js'
import { systemClock } from '../clock.js'
import { type Config, readConfigFile } from '../config/index.js'
import { defaultControlSocket } from '../control-socket.js'
import { changesBetween, diagnose, type Finding, printChanges, printFindings } from '../doctor/index.js'
import { isConfigError, KernelError } from '../errors.js'
import { KernelModules, openKernel } from '../kernel/index.js'
import { stopSignal } from '../process/index.js'
import { adviceOn } from './advice.js'
import { examine, type ExamineOptions } from './examine-node.js'
import { findAgent, modulesInUse, type RunningAgent } from './running-agent.js'

export interface DoctorIo {
  /** As `PlanIo.out`. */
  readonly out: (text: string) => Promise<void>
  readonly err: (text: string) => void
  readonly environment: ExamineOptions['environment']
}

/** One run of the checks. */
interface Examination {
  readonly findings: readonly Finding[]
  /** As `ExaminedAgent.origin`. */
  readonly origin: string | undefined
}

/** A text instead of the findings: a mistake in the flags, or the version. */
interface NoExamination {
  readonly exitCode: 0 | 2
  readonly text: string
}

/** Runs the command. Resolves with the exit code: 0; 1: something is broken; 2: wrong arguments. */
export async function runDoctor(words: readonly string[], io: DoctorIo): Promise<number> {
  const own = parseDoctorArguments(words, defaultControlSocket)
  if ('problem' in own) {
    io.err(`viaduct: ${own.problem}\n`)
    return 2
  }
  try {
    const first = await examineOnce(own, io)
    if ('text' in first) {
      if (first.exitCode === 0) await io.out(first.text)
      else io.err(first.text)
      return first.exitCode
    }
    const { watchMs } = own
    // NB: before the first line, since a reader of that line may send the signal at once.
    const end = watchMs === undefined ? undefined : new End()
    const origin = first.origin !== undefined && own.output === 'table' ? `${first.origin}\n` : ''
    const text = `${origin}${await format(first.findings, own)}`
    // NB: the signal also ends the wait for a reader that reads no more.
    await (end?.orUntil(io.out(text)) ?? io.out(text))
    if (watchMs === undefined || end === undefined) return codeOf(first.findings)
    return codeOf(await watch(first.findings, { own: { ...own, watchMs }, end, io }))
  } catch (error) {
    io.err(`viaduct: ${adviceOn(error)}\n`)
    return 1
  }
}

/**
 * Runs the checks again and again, and prints what changed, until a signal asks the process to end. A run that fails is reported, and
 * the next one follows. Resolves with the last findings, the only ones that are kept.
 */
async function watch(
  first: readonly Finding[],
  {
    own,
    end,
    io,
  }: {
    readonly own: DoctorArguments & { readonly watchMs: number }
    readonly end: End
    readonly io: DoctorIo
  },
): Promise<readonly Finding[]> {
  let last = first
  while (!end.isHere) {
    await end.orUntil(pause(own.watchMs))
    // NB: a run that the signal interrupts does not count.
    const next = end.isHere ? undefined : await end.orUntil(examineAgain(own, io))
    if (end.isHere || next === undefined) break
    const time = new Date(systemClock.unixMs()).toISOString()
    if ('findings' in next) {
      await end.orUntil(io.out(printChanges(changesBetween(last, next.findings), time)))
      last = next.findings
    } else io.err(`${time} ${next.text}`)
  }
  return last
}

/** A run after the first. Its failure is a text. */
async function examineAgain(own: DoctorArguments, io: DoctorIo): Promise<Examination | NoExamination> {
  try {
    return await examineOnce(own, io)
  } catch (error) {
    if (!(error instanceof KernelError) && !isConfigError(error)) throw error
    return { exitCode: 2, text: `viaduct: ${adviceOn(error)}\n` }
  }
}

/** The signal that asks the process to end. NB: a race against one promise that lives long would keep the results of all others. */
class End {
  isHere = false
  #wake: () => void = () => {}

  constructor() {
    void stopSignal().then(() => {
      this.isHere = true
      this.#wake()
    })
  }

  /** The result of the work; undefined: the signal came first. */
  async orUntil<Result>(work: Promise<Result>): Promise<Result | undefined> {
    return await new Promise((resolve, reject) => {
      this.#wake = () => resolve(undefined)
      work.then(resolve, reject)
    })
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    systemClock.schedule(ms, resolve)
  })
}

/** Asks the agent, and checks the node for its configuration with the flags of the command. */
async function examineOnce(
  { flags, socket }: DoctorArguments,
  { environment }: DoctorIo,
): Promise<Examination | NoExamination> {
  const agent = await findAgent(socket)
  const invocation = parseArguments(flags, readConfigFile, agent.answer?.input)
  if ('exitCode' in invocation) return invocation
  const origin = invocation.configFile === undefined ? originOf(agent, flags) : undefined
  return { findings: await findingsOf(invocation.config, { environment, agent, origin }), origin }
}

/** The origin of the configuration if an agent gave it, as one clause. */
function originOf({ answer, socket }: RunningAgent, flags: readonly string[]): string | undefined {
  if (answer === undefined) return undefined
  const names = flags.filter((word) => word.startsWith('-')).map((word) => word.replace(/=.*/su, ''))
  const own = names.length === 0 ? '' : `, and ${names.join(', ')} of this command`
  return `the configuration is that of the agent on ${socket}${own}`
}

/** The findings about this node for an agent with this configuration. Throws KernelError or ConfigError. */
export async function findingsOf(config: Config, options: ExamineOptions): Promise<readonly Finding[]> {
  const modules = new KernelModules('/', modulesInUse(options.agent))
  const kernel = openKernel({ addonPath: options.environment['VIADUCT_ADDON'], dryRun: () => {}, modules })
  try {
    return await diagnose(await examine(config, kernel, { ...options, modules }))
  } finally {
    await kernel.close()
  }
}

async function format(
  findings: readonly Finding[],
  { isAll, output }: Pick<DoctorArguments, 'isAll' | 'output'>,
): Promise<string> {
  if (output === 'table') return printFindings(findings, isAll)
  if (output === 'json') return `${JSON.stringify(findings, undefined, 2)}\n`
  const { dump } = await import('js-yaml')
  return dump(findings, { noRefs: true, lineWidth: -1 })
}

function codeOf(findings: readonly Finding[]): number {
  return findings.some(({ status }) => status === 'broken') ? 1 : 0
}
