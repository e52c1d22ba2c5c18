// Program, for a network namespace: node plan-program.js plan|start FLAGS. Prints the operations of the agent's start as a JSON array.
// plan: on a kernel for a plan, which changes nothing. start: on the kernel itself, without servers and without an end.
import { plan } from '../../src/agent/testing.js'
import { parseArguments } from '../../src/cli/index.js'
import { systemClock } from '../../src/clock.js'
import { readConfigFile } from '../../src/config/index.js'
import { openKernel } from '../../src/kernel/index.js'
import { openLog } from '../../src/log.js'

const [, , task, ...flags] = process.argv
const configuration = parseArguments(flags, readConfigFile)
if ('exitCode' in configuration) throw new Error(configuration.text)
const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'], isPlanned: task === 'plan' })
const log = openLog({
  format: 'text',
  verbosity: 2,
  destination: { write: (line) => void process.stderr.write(line) },
  clock: systemClock,
})
const { operations } = await plan({ ...configuration, kernel, clock: systemClock, log, timeoutMs: 60_000 })
await kernel.close()
process.stdout.write(JSON.stringify(operations))
