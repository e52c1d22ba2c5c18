// Prints the number of the ruleset's state in this network namespace: each transaction of any program adds one.
import { openKernel } from '../../src/kernel/index.js'

const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'] })
process.stdout.write(`${await kernel.nftables.generation()}\n`)
await kernel.close()
