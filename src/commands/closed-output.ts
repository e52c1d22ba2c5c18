/** The exit code that a shell shows for a C program that SIGPIPE ends. */
const endedByPipe = 141

/** Ends the process silently when the reader of its output, such as head(1), has closed the pipe. For commands, not for the agent. */
export function endWithReader(output: Pick<NodeJS.WriteStream, 'on'>, exit: (code: number) => void): void {
  output.on('error', (error) => {
    if (!('code' in error) || error.code !== 'EPIPE') throw error
    exit(endedByPipe)
  })
}
