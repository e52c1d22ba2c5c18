// One row of the table of commands: everything that the program knows about one command.
import { defaultControlSocket } from '../control-socket.js'
import type { Snapshots } from '../inspect/index.js'
import type { Known } from './shapes.js'

/** A positional argument. */
export interface Argument {
  /** As in the help: `NS/NAME`. */
  readonly name: string
  readonly isRequired: boolean
  /** One clause without a full stop. */
  readonly help: string
  /** The only values that it may have. Absent: any text. */
  readonly choices?: readonly string[]
}

/** An option of a command. `commonOptions` are those of every command. */
export interface Option {
  /** Without dashes. */
  readonly name: string
  /** One letter. */
  readonly short?: string
  /** Word for its value in the help; absent: the option has no value. */
  readonly metavar?: string
  readonly help: string
  /** The only values that it may have. Absent: any text. */
  readonly choices?: readonly string[]
  /** The default; absent: none. */
  readonly initial?: string
}

interface Example {
  /** Without `viaduct`. */
  readonly line: string
  /** The use of the line, as one clause. */
  readonly help: string
}

/** A reply of the agent, which may be of another version. */
export interface Answer<Name extends keyof Snapshots> {
  /** The JSON value as it came. */
  readonly value: unknown
  /** The parts that this version knows. */
  readonly known: Known<Snapshots[Name]>
}

export type Ask = <Name extends keyof Snapshots>(
  name: Name,
  parameters?: Readonly<Record<string, string>>,
) => Promise<Answer<Name>>

/** A command as it was written, after validation. */
export interface Invocation {
  /** In the order of `Command.arguments`; an absent one is missing. */
  readonly arguments: readonly string[]
  /** The values of options by name; `true` for an option without value; absent: not written. */
  readonly options: Readonly<Record<string, string | true | undefined>>
  /**
   * Asks the agent: the JSON value of `/v1/NAME?PARAMETERS`. Throws CommandError if the agent cannot be reached, or does not know
   * the object.
   */
  readonly ask: Ask
  /** The whole table. */
  readonly commands: readonly Command[]
}

/** The result of a command. */
export interface Result {
  /** For -o json and -o yaml: a plain JSON value. */
  readonly value: unknown
  /** For -o table: lines, each with its newline. Called only for that format. */
  readonly table: () => string
  /** 1: the command found something wrong (`Command.finds`). Absent: 0. */
  readonly exitCode?: 0 | 1
}

/** A list that may be long. The agent makes its text. */
export interface List {
  /** `/v1/NAME` has it as JSON, `/v1/tables/NAME` as a table. */
  readonly name: 'services' | 'endpoints' | 'routes'
  readonly parameters: Readonly<Record<string, string>>
  /** Lines after the table. */
  readonly afterTable?: () => Promise<string>
}

export interface Command {
  readonly name: string
  /** One clause for the list of commands, without a full stop. */
  readonly help: string
  /** Sentences for the command's own help. */
  readonly description: string
  readonly arguments: readonly Argument[]
  readonly options: readonly Option[]
  readonly examples: readonly Example[]
  /** The meaning of exit code 1, as one clause. Absent: the object does not exist. */
  readonly finds?: string
  /** The command prints text of its own: it has no -o and asks no agent. */
  readonly isPlain?: true
  readonly run: (invocation: Invocation) => Promise<Result | List>
}

/** The options of every command that is not plain. */
export const commonOptions: readonly Option[] = [
  {
    name: 'output',
    short: 'o',
    metavar: 'FORMAT',
    help: 'how to print the result',
    choices: ['table', 'json', 'yaml'],
    initial: 'table',
  },
  { name: 'socket', metavar: 'FILE', help: "the agent's control socket", initial: defaultControlSocket },
]

/** All options of a command. */
export function optionsOf({ isPlain, options }: Command): readonly Option[] {
  return isPlain === true ? options : [...options, ...commonOptions]
}

/** A command that cannot have a result. */
export class CommandError extends Error {
  readonly exitCode: 1 | 2 | 3

  constructor(exitCode: 1 | 2 | 3, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}
