import { Command, CommanderError } from 'commander'
import { handOverTimeoutSeconds } from '../commands/index.js'

/** Reads the options of `viaduct hand-over`. `problem`: a mistake, as one sentence. */
export function parseHandOverArguments(
  argv: readonly string[],
): { readonly timeoutMs: number } | { readonly problem: string } {
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
    if (!(error instanceof CommanderError)) throw error
    return { problem: error.message.replace(/^error: /u, '') }
  }
}
