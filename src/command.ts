// The program of `viaduct COMMAND`. dist/agent.js loads it when the first argument is a word.
import { runCommand } from './commands/index.js'

const io = {
  out: (text: string) => void process.stdout.write(text),
  err: (text: string) => void process.stderr.write(text),
}

// A reader such as head(1) may close the pipe early.
process.stdout.on('error', (error) => {
  if (!('code' in error) || error.code !== 'EPIPE') throw error
})

// NB: exitCode, not exit: a pipe may not have taken all output yet.
void runCommand(process.argv.slice(2), io).then((exitCode) => {
  process.exitCode = exitCode
})
