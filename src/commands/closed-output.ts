/** The exit code that a shell shows for a C program that SIGPIPE ends. */
const endedByPipe = 141

/** Ends the process silently when the reader of an output, such as head(1), has closed the pipe. For commands, not for the agent. */
export function endWithReaders(
  outputs: readonly Pick<NodeJS.WriteStream, 'on'>[],
  exit: (code: number) => void,
): void {
  for (const output of outputs)
    output.on('error', (error) => {
      if (!('code' in error) || error.code !== 'EPIPE') throw error
      exit(endedByPipe)
    })
}
