// The program of `viaduct COMMAND`. dist/agent.js loads it when the first argument is a word.
import { endWithReaders, runCommand } from './commands/index.js'

const io = {
  out: (text: string | Buffer) => void process.stdout.write(text),
  err: (text: string) => void process.stderr.write(text),
}

endWithReaders([process.stdout, process.stderr], io.err, (code) => process.exit(code))

// NB: exitCode, not exit: a pipe may not have taken all output yet.
void runCommand(process.argv.slice(2), io).then((exitCode) => {
  process.exitCode = exitCode
})
