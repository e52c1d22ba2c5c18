// dist/agent.js: runs the agent's bundle with the bytecode that the build made of it. Compiling it anew at each start would
// cost a third of the time until the first 10,000 services are in the kernel (docs/benchmarks.md).
import crypto = require('node:crypto')
import fs = require('node:fs')
import path = require('node:path')
import vm = require('node:vm')

const hashLength = 32

/** The bytecode, when it was made of this very source: V8 itself compares no more than its length. Anything else is no harm but a slow start. */
function bytecodeOf(source: Buffer, file: string): Buffer | undefined {
  if (!fs.existsSync(file)) return undefined
  const cache = fs.readFileSync(file)
  const hash = crypto.createHash('sha256').update(source).digest()
  return hash.equals(cache.subarray(0, hashLength)) ? cache.subarray(hashLength) : undefined
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
