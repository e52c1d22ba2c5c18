// dist/agent.js. If the first argument is a word, it runs the bundle of the commands. Else it runs the agent's bundle. Both have
// bytecode that the build made from them. Compiling the agent's bundle at each start would cost a tenth of the time until the first
// 10,000 services are in the kernel (docs/adr/0012).
import fs = require('node:fs')
import os = require('node:os')
import path = require('node:path')
import v8 = require('node:v8')
import vm = require('node:vm')
import bytecode = require('./bytecode.cjs')

const [, , firstArgument] = process.argv
const isHelp = process.argv.includes('-h') || process.argv.includes('--help')
/** Commands that need the agent's bundle, except for their help. */
const needsAgent = ['bundle', 'doctor', 'plan', 'diff', 'hand-over'].includes(firstArgument ?? '') && !isHelp
/** Commands that may use a core for a second. The running agent comes first. */
const isHeavy = needsAgent && firstArgument !== 'hand-over'
const heavyNiceness = 10
const isCommand = firstArgument !== undefined && !firstArgument.startsWith('-') && !needsAgent
if (Number.parseInt(process.versions.node) < 20) refuseNode()
else if (isCommand) runBundle('command')
else runAgent()

/** Debian 12 has Node 18, in which the bundles end with a TypeError. */
function refuseNode(): void {
  process.stderr.write(`viaduct: this is Node ${process.versions.node}; Node 20.20 or later is needed\n`)
  process.exitCode = 1
}

function runAgent(): void {
  // Threads that begin later have the same niceness.
  if (isHeavy) os.setPriority(Math.max(heavyNiceness, os.getPriority()))

  // Two of them wait for the kernel (docs/adr/0002). Before the first of them starts: libuv reads it once.
  process.env['UV_THREADPOOL_SIZE'] ??= '6'

  // V8 of Node 20 and 22 takes bytecode only where the heap's limits are written as they were at the build: not at all. By now the
  // heap has them, and what is written no longer counts.
  for (const limit of ['--max-old-space-size=0', '--max-semi-space-size=0']) v8.setFlagsFromString(limit)

  runBundle('bundle')
}

/** Runs NAME.js with NAME.bytecode. */
function runBundle(name: string): void {
  const file = path.join(__dirname, `${name}.js`)
  const source = fs.readFileSync(file)
  const cachedData = bytecodeOf(source, path.join(__dirname, `${name}.bytecode`))
  // The bundle is ASCII, and one function.
  const script = new vm.Script(source.toString('latin1'), {
    filename: file,
    ...(cachedData === undefined ? {} : { cachedData }),
  })
  const bundle: (require: NodeJS.Require, filename: string) => void = script.runInThisContext()
  bundle(require, __filename)
}

/** Bytecode that cannot be read, or is not of this source and Node, is no harm but a slow start. */
function bytecodeOf(source: Buffer, file: string): Buffer | undefined {
  try {
    return bytecode.unseal(source, fs.readFileSync(file))
  } catch {
    return undefined
  }
}
