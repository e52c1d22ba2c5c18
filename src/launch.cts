// dist/agent.js: runs the agent's bundle with the bytecode that the build made of it. Compiling it anew at each start would
// cost a third of the time until the first 10,000 services are in the kernel (docs/benchmarks.md).
import fs = require('node:fs')
import path = require('node:path')
import vm = require('node:vm')

/** The file begins with the source that its bytecode was made of, as V8 itself compares no more than the length. Another source, or no such file, is no harm but a slow start. */
function bytecodeOf(source: Buffer, file: string): Buffer | undefined {
  if (!fs.existsSync(file)) return undefined
  const made = fs.readFileSync(file)
  return made.subarray(0, source.length).equals(source) ? made.subarray(source.length) : undefined
}

const file = path.join(__dirname, 'bundle.js')
const source = fs.readFileSync(file)
const cachedData = bytecodeOf(source, path.join(__dirname, 'bundle.bytecode'))
// The bundle is ASCII, and one function.
const script = new vm.Script(source.toString('latin1'), {
  filename: file,
  ...(cachedData === undefined ? {} : { cachedData }),
})
const bundle: (require: NodeJS.Require, filename: string) => void = script.runInThisContext()
bundle(require, __filename)
