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
