import { doctorIntervalSeconds } from '../commands/index.js'

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

/** Separates the command's own options from the agent's flags. `socket`: the default of --socket. `problem`: a mistake, as one sentence. */
export function parseDoctorArguments(
  words: readonly string[],
  socket: string,
): DoctorArguments | { readonly problem: string } {
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
