import { Command as Parser, CommanderError, Option as ParserOption } from 'commander'
import { defaultControlSocket } from '../control-socket.js'
import { AgentClient } from './client.js'
import {
  type Ask,
  type Command,
  CommandError,
  type List,
  type Option,
  optionsOf,
  type Result,
} from './command.js'
import { bundleCommand, doctorCommand, handOverCommand, diffCommand, planCommand } from './agent-commands.js'
import { completionCommand } from './completion.js'
import { connectionsCommand, endpointsCommand, routesCommand, servicesCommand } from './services.js'
import { explainCommand } from './explain.js'
import { historyCommand } from './history.js'
import { statusCommand } from './status.js'

/** The exit codes of all commands. */
export const exitCodes = [
  { code: 0, help: 'the command did its work' },
  { code: 1, help: 'the command found something wrong, or the object does not exist' },
  { code: 2, help: 'the arguments are wrong' },
  { code: 3, help: 'the agent cannot be reached' },
] as const

/** The outputs of a command. */
interface CommandIo {
  /** Text, or bytes of UTF-8. */
  readonly out: (text: string | Buffer) => void
  readonly err: (text: string) => void
}

/** Runs the command of these arguments (`argv` without the program's two leading words). Resolves with the exit code. */
export async function runCommand(argv: readonly string[], io: CommandIo): Promise<number> {
  let exitCode = 0
  const parser = new Parser('viaduct')
    .usage('COMMAND [arguments] [options]')
    .description(
      'Shows what a running Viaduct agent does. Without a command, viaduct is the agent: viaduct --help.',
    )
    .helpOption('-h, --help', 'print this help and exit')
    .helpCommand('help [COMMAND]', 'print the help of a command')
    .configureOutput({ writeOut: io.out, writeErr: () => undefined })
    .exitOverride()
  for (const command of commands) {
    addCommand(parser, command, async (written, options) => {
      exitCode = await runOne(command, written, options, io)
    })
  }
  try {
    await parser.parseAsync([...argv], { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommandError) {
      io.err(`viaduct: ${error.message}\n`)
      return error.exitCode
    }
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return 0
    io.err(`viaduct: ${describe(error, argv)} (see viaduct help)\n`)
    return 2
  }
}

type Options = Readonly<Record<string, string | true | undefined>>
type Action = (written: readonly string[], options: Options) => Promise<void>

function addCommand(parser: Parser, command: Command, action: Action): void {
  const sub = parser
    .command(command.name)
    .summary(command.help)
    .description(command.description)
    .helpOption('-h, --help', 'print this help and exit')
    .allowExcessArguments(false)
    .exitOverride()
  for (const { name, isRequired, help, choices } of command.arguments) {
    const argument = sub.createArgument(isRequired ? `<${name}>` : `[${name}]`, help)
    sub.addArgument(choices === undefined ? argument : argument.choices(choices))
  }
  for (const option of optionsOf(command)) sub.addOption(parserOption(option))
  sub.addHelpText('after', helpEnd(command))
  sub.action(async () => {
    await action(sub.args, sub.opts())
  })
}

function parserOption({ name, short, metavar, help, choices, initial }: Option): ParserOption {
  const value = metavar === undefined ? '' : ` <${metavar}>`
  const option = new ParserOption(`${short === undefined ? '' : `-${short}, `}--${name}${value}`, help)
  if (choices !== undefined) option.choices(choices)
  return initial === undefined ? option : option.default(initial)
}

/** Examples and exit codes, for the end of a command's help. */
function helpEnd({ examples, finds }: Command): string {
  const lines = examples.map(({ line, help }) => `  viaduct ${line}\n      ${help}\n`)
  const codes = exitCodes.map(({ code, help }) => `  ${code}  ${code === 1 ? (finds ?? help) : help}\n`)
  return `\nExamples:\n${lines.join('')}\nExit codes:\n${codes.join('')}`
}

async function runOne(
  { run, isPlain }: Command,
  written: readonly string[],
  { output = 'table', socket = defaultControlSocket, ...options }: Options,
  io: CommandIo,
): Promise<number> {
  const agent = new AgentClient(String(socket), (sentence) => io.err(`viaduct: ${sentence}\n`))
  const ask: Ask = async (name, parameters) => await agent.ask(name, parameters)
  const result = await run({ arguments: written, options, commands, ask })
  if ('parameters' in result) {
    await printList(result, { agent, format: String(output), io })
    return 0
  }
  io.out(isPlain === true ? result.table() : await print(result, String(output)))
  return result.exitCode ?? 0
}

async function print({ value, table }: Result, format: string): Promise<string> {
  if (format === 'json') return `${JSON.stringify(value, undefined, 2)}\n`
  if (format === 'table') return table()
  // NB: loaded here, because most calls do not print YAML.
  const { dump } = await import('js-yaml')
  return dump(value, { noRefs: true, lineWidth: -1 })
}

async function printList(
  { name, parameters, afterTable }: List,
  { agent, format, io }: { readonly agent: AgentClient; readonly format: string; readonly io: CommandIo },
): Promise<void> {
  if (format === 'yaml') {
    const value = await agent.readListValue(name, parameters)
    return io.out(await print({ value, table: () => '' }, format))
  }
  const isTable = format === 'table'
  // NB: a pager may stop to read, and the agent closes the connection of a client that does not read its reply. So the reply comes first.
  const bytes = isTable ? await agent.readTable(name, parameters) : await agent.readList(name, parameters)
  const after = isTable ? await afterTable?.() : undefined
  io.out(bytes)
  if (after !== undefined) io.out(after)
}

function describe(error: CommanderError, [, name = '']: readonly string[]): string {
  // `help NAME` without such a command: the error's text does not say so.
  if (error.code === 'commander.help') return `unknown command '${name}'`
  const [sentence = '', suggestion] = error.message.replace(/^error: /u, '').split('\n')
  const nearest = /^\(Did you mean (?<words>.*)\?\)$/u.exec(suggestion ?? '')?.groups?.['words']
  return nearest === undefined ? sentence : `${sentence}; did you mean ${nearest}?`
}

/** The table of commands, in the order of the help. */
export const commands: readonly Command[] = [
  statusCommand,
  servicesCommand,
  endpointsCommand,
  routesCommand,
  connectionsCommand,
  explainCommand,
  planCommand,
  diffCommand,
  historyCommand,
  doctorCommand,
  bundleCommand,
  handOverCommand,
  completionCommand,
]

/** The exit code that a shell shows for a C program that SIGPIPE ends. */
const endedByPipe = 141

/**
 * Ends the process when an output cannot be written: silently when its reader, such as head(1), has closed the pipe; otherwise with a
 * sentence, as for a full disk. For commands, not for the agent.
 */
export function endWithReaders(
  outputs: readonly Pick<NodeJS.WriteStream, 'on'>[],
  err: (text: string) => void,
  exit: (code: number) => void,
): void {
  for (const output of outputs)
    output.on('error', (error) => {
      if ('code' in error && error.code === 'EPIPE') return exit(endedByPipe)
      err(`viaduct: the output cannot be written: ${error.message}\n`)
      exit(1)
    })
}
