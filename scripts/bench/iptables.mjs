// The benchmark of iptables mode on this machine's kernel, in network namespaces: runs the parts one after the other, prints every figure
// with its target, and writes out/bench/iptables.json.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { step, StepError } from '../steps.mjs'
import { parts } from './iptables-rows.mjs'
import { benchFolder, compileProgram, measurePart } from './programs.mjs'
import { line } from './rows.mjs'

/** The number of services for which the targets hold. */
const fullSize = 10_000
const limitSeconds = 600

/** @typedef {{ readonly services: number, readonly names: readonly string[] }} Request */

/**
 * @param {readonly string[]} args `[--services N] [PART...]`
 * @returns {Request}
 */
export function parseIptables(args) {
  const { values, positionals } = read(args)
  const services = Number(values.services)
  // At least enough Services for the changes, and at most the number of VIPs.
  if (!Number.isInteger(services) || services < 200 || services > 50_000)
    throw new StepError(`--services ${values.services} is not from 200 to 50000`)
  for (const name of positionals)
    if (!(name in parts)) throw new StepError(`no part ${name}, only ${Object.keys(parts).join(', ')}`)
  return { services, names: positionals.length === 0 ? Object.keys(parts) : positionals }
}

/** @param {readonly string[]} args */
function read(args) {
  try {
    return parseArgs({
      args: [...args],
      options: { services: { type: 'string', default: String(fullSize) } },
      allowPositionals: true,
    })
  } catch (error) {
    throw new StepError(error.message)
  }
}

/**
 * NB: all programs must be compiled and bundled.
 * @param {Request} request
 */
export async function benchIptables({ services, names }) {
  const connect = await compileProgram('connect')
  const machine = { kernel: release(), node: process.version, cores: cpus().length }
  /** @type {Record<string, { load: number, figures: any }>} */
  const results = {}
  for (const name of names) {
    const load = loadavg()[0] ?? Number.NaN
    const figures = await step(`Measuring ${parts[name].title}`, () =>
      measurePart('iptables', [name, connect, String(services)], { limitSeconds }),
    )
    results[name] = { load, figures }
  }
  const figures = { ...machine, date: new Date().toISOString(), services, parts: results }
  writeFileSync(join(benchFolder, 'iptables.json'), `${JSON.stringify(figures, undefined, 2)}\n`)
  console.log(
    `\n${services} services, kernel ${machine.kernel}, node ${machine.node}, ${machine.cores} cores`,
  )
  for (const [name, { load, figures: found }] of Object.entries(results)) {
    console.log(`\n${parts[name].title} (load before: ${load.toFixed(2)})`)
    for (const row of parts[name].rows(found)) console.log(line(row, services === fullSize))
  }
}
