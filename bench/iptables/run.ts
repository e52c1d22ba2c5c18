// Measures one part of iptables mode on this machine's kernel, in network namespaces. Prints the figures as one JSON line:
//   node run.js PART CONNECT_BINARY SERVICES
// All files are under TMPDIR.
import { fileURLToPath } from 'node:url'
import { commandFigures } from '../stage/command-figures.js'
import { executedPrograms } from '../stage/executed-programs.js'
import { useNiceness } from '../stage/niceness.js'
import type { Setting } from '../stage/stage.js'
import { agentFigures, churnFigures } from './agent-figures.js'
import { commitFigures } from './commit-figures.js'
import { connectionFigures } from './connections.js'
import { floodFigures } from './flood-figures.js'
import { lockFigures } from './lock-figures.js'
import { loopFigures } from './loop-figures.js'

const [part = '', connect = '', services = ''] = process.argv.slice(2)
const one: Setting = { mode: 'iptables', connect, size: { services: Number(services), reals: 1 } }
const ten: Setting = { ...one, size: { ...one.size, reals: 10 } }

async function both(measure: (setting: Setting) => Promise<unknown>): Promise<unknown> {
  return { one: await measure(one), ten: await measure(ten) }
}

/** scripts/bench/iptables-rows.mjs has a row for each of the main figures. */
const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  agent: async () => await both(agentFigures),
  churn: async () => await churnFigures(one),
  programs: async () => await executedPrograms(one),
  loop: async () => await both(loopFigures),
  floods: async () => await floodFigures(one),
  commit: async () => await both(async ({ size }) => await commitFigures(size)),
  lock: lockFigures,
  connections: async () => await connectionFigures(one),
  commands: async () => await commandFigures(ten),
}

useNiceness()

const measure = parts[part]
if (measure === undefined)
  throw new Error(`${fileURLToPath(import.meta.url)}: no part ${part}, only ${Object.keys(parts).join(' ')}`)
const figures = await measure()
process.stdout.write(`${JSON.stringify(figures)}\n`)
