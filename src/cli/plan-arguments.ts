import { Command, CommanderError, Option } from 'commander'

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

/** A mistake in the arguments, as one sentence. */
export interface PlanUsage {
  readonly problem: string
}

const usualTimeoutSeconds = '60'

/** Separates the command's own options from the agent's flags. `socket`: the default of --socket. */
export function parsePlanArguments(argv: readonly string[], socket: string): PlanArguments | PlanUsage {
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
    if (!(error instanceof CommanderError)) throw error
    return { problem: error.message.replace(/^error: /u, '') }
  }
}
