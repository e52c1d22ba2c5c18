// The arguments of the commands doctor, plan, diff and hand-over: their own options, and the agent's flags among them.
import { Command, CommanderError, Option } from 'commander'
import { doctorIntervalSeconds, handOverTimeoutSeconds } from '../commands/index.js'

/** A mistake in the arguments, as one sentence. */
interface Mistake {
  readonly problem: string
}

/** The options of `viaduct doctor` besides the agent's flags. */
export interface DoctorArguments {
  readonly output: 'table' | 'json' | 'yaml'
  /** Print each check that found no problem too. */
  readonly isAll: boolean
  /** The control socket of the agent. */
  readonly socket: string
  /** The time between two runs of the checks; undefined: one run. */
  readonly watchMs: number | undefined
  /** The other words: flags of the agent. */
  readonly flags: readonly string[]
}

const [shortestSeconds, longestSeconds] = [1, 3600]
const outputs = ['table', 'json', 'yaml'] as const
const valued = ['--output', '--socket', '--interval'] as const
type Valued = (typeof valued)[number]

/** Separates the command's own options from the agent's flags. `socket`: the default of --socket. */
export function parseDoctorArguments(words: readonly string[], socket: string): DoctorArguments | Mistake {
  const flags: string[] = []
  const written = new Set<string>()
  const values = new Map<Valued, string>()
  const rest = [...words]
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    const [name, joined] = nameAndValue(word)
    const option = valued.find((each) => each === name)
    if (option !== undefined) values.set(option, joined ?? rest.shift() ?? '')
    else if (word === '--all' || word === '--watch') written.add(word)
    else flags.push(word)
  }
  const text = values.get('--output') ?? 'table'
  const output = outputs.find((each) => each === text)
  if (output === undefined)
    return { problem: `-o: must be one of ${outputs.join(', ')}, not ${JSON.stringify(text)}` }
  const isWatch = written.has('--watch')
  if (isWatch && output !== 'table') return { problem: `--watch: prints text, and takes no -o ${output}` }
  const interval = values.get('--interval') ?? doctorIntervalSeconds
  const seconds = Number(interval)
  if (!(seconds >= shortestSeconds && seconds <= longestSeconds))
    return {
      problem: `--interval: must be ${shortestSeconds} to ${longestSeconds} seconds, not ${JSON.stringify(interval)}`,
    }
  return {
    output,
    isAll: written.has('--all'),
    socket: values.get('--socket') ?? socket,
    watchMs: isWatch ? seconds * 1000 : undefined,
    flags,
  }
}

/** `--output=json`, `-o json`, `-ojson` and `-o=json` alike; a word without a value has none. */
function nameAndValue(word: string): readonly [name: string, value: string | undefined] {
  const short = /^-o(?:=?(?<value>.+))?$/su.exec(word)
  if (short !== null) return ['--output', short.groups?.['value']]
  const long = /^(?<name>--[a-z]+)=(?<value>.*)$/su.exec(word)
  return [long?.groups?.['name'] ?? word, long?.groups?.['value']]
}

/** The options of `viaduct plan` and `viaduct diff` besides the agent's flags. */
export interface PlanArguments {
  readonly output: 'table' | 'json' | 'yaml'
  /** Only the counts. */
  readonly isSummary: boolean
  readonly timeoutMs: number
  /** The control socket of the agent; `diff` only. */
  readonly socket: string
  /** The other words: flags of the agent. */
  readonly flags: readonly string[]
}

const usualTimeoutSeconds = '60'

/** Separates the command's own options from the agent's flags. `socket`: the default of --socket. */
export function parsePlanArguments(argv: readonly string[], socket: string): PlanArguments | Mistake {
  const command = new Command('viaduct')
    .addOption(new Option('-o, --output <FORMAT>').choices(['table', 'json', 'yaml']).default('table'))
    .option('--summary')
    .option('--timeout <SECONDS>', '', usualTimeoutSeconds)
    .option('--socket <FILE>', '', socket)
    .configureOutput({ writeErr: () => undefined })
    .exitOverride()
  try {
    const { operands, unknown } = command.parseOptions([...argv])
    const {
      output,
      summary,
      timeout,
      socket: file,
    } = command.opts<{
      output: PlanArguments['output']
      summary?: true
      timeout: string
      socket: string
    }>()
    const seconds = Number(timeout)
    if (!(seconds > 0)) return { problem: `--timeout: "${timeout}" is not a number of seconds above 0` }
    return {
      output,
      isSummary: summary === true,
      timeoutMs: seconds * 1000,
      socket: file,
      flags: [...operands, ...unknown],
    }
  } catch (error) {
    return mistakeOf(error)
  }
}

/** Reads the options of `viaduct hand-over`. */
export function parseHandOverArguments(argv: readonly string[]): { readonly timeoutMs: number } | Mistake {
  const command = new Command('viaduct')
    .option('--timeout <SECONDS>', '', handOverTimeoutSeconds)
    .allowExcessArguments(false)
    .configureOutput({ writeErr: () => undefined })
    .exitOverride()
  try {
    const { timeout } = command.parse([...argv], { from: 'user' }).opts<{ timeout: string }>()
    const seconds = Number(timeout)
    if (!(seconds > 0)) return { problem: `--timeout: "${timeout}" is not a number of seconds above 0` }
    return { timeoutMs: seconds * 1000 }
  } catch (error) {
    return mistakeOf(error)
  }
}

/** Throws an error that is not commander's. */
function mistakeOf(error: unknown): Mistake {
  if (!(error instanceof CommanderError)) throw error
  return { problem: error.message.replace(/^error: /u, '') }
}
