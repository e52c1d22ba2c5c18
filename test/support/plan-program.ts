// Program, for a network namespace: node plan-program.js plan|start FLAGS. Prints the operations of the agent's start as a JSON array.
// plan: in a dry run, which changes nothing. start: on the kernel itself, without servers and without an end.
import { plan } from '../../src/agent/testing.js'
import { parseArguments } from '../../src/cli/index.js'
import { systemClock } from '../../src/clock.js'
import { readConfigFile } from '../../src/config/index.js'
import { printTransactions } from '../../src/inspect/index.js'
import { type KernelTransaction, openKernel } from '../../src/kernel/index.js'
import { openLog } from '../../src/log.js'
import { sendingKernel } from './sending-kernel.js'

const [, , task, ...flags] = process.argv
const configuration = parseArguments(flags, readConfigFile)
if ('exitCode' in configuration) throw new Error(configuration.text)
const transactions: KernelTransaction[] = []
const take = (transaction: KernelTransaction): void => void transactions.push(transaction)
const addonPath = process.env['VIADUCT_ADDON']
const kernel =
  task === 'plan' ? openKernel({ addonPath, dryRun: take }) : sendingKernel(openKernel({ addonPath }), take)
const log = openLog({
  format: 'text',
  verbosity: 2,
  destination: { write: (line) => void process.stderr.write(line) },
  clock: systemClock,
})
await plan({ ...configuration, kernel, clock: systemClock, log, timeoutMs: 60_000 })
await kernel.close()
process.stdout.write(JSON.stringify(printTransactions(transactions)))
