// The benchmark of nftables mode on this machine's kernel, in network namespaces: runs the parts one after the other, prints every
// figure with its target, and writes out/bench/nftables.json.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { step, StepError } from '../steps.mjs'
import { parts } from './nftables-rows.mjs'
import { benchFolder, compileProgram, measurePart } from './programs.mjs'
import { line } from './rows.mjs'

const limitSeconds = 300

/**
 * Everything is compiled and bundled already.
 * @param {readonly string[]} names of parts; none: all, and the one with a kube-proxy only if KUBE_PROXY names one
 */
export async function benchNftables(names) {
  for (const name of names)
    if (!(name in parts)) throw new StepError(`no part ${name}, only ${Object.keys(parts).join(', ')}`)
  const connect = await compileProgram('connect')
  const floor = await compileProgram('nft_floor')
  const machine = { kernel: release(), node: process.version, cores: cpus().length }
  console.log(`\nkernel ${machine.kernel}, node ${machine.node}, ${machine.cores} cores`)
  /** @type {Record<string, { load: number, figures: any }>} */
  const results = {}
  for (const name of names.length === 0 ? Object.keys(parts).filter(isReady) : names) {
    const load = loadavg()[0] ?? Number.NaN
    const { title, rows } = parts[name]
    const figures = await step(`Measuring ${title}`, () =>
      measurePart('nftables', [name, connect, floor], { limitSeconds }),
    )
    results[name] = { load, figures }
    console.log(`\n${title} (load before: ${load.toFixed(2)})`)
    for (const row of rows(figures)) console.log(line(row, true))
  }
  const text = JSON.stringify({ ...machine, date: new Date().toISOString(), parts: results }, undefined, 2)
  writeFileSync(join(benchFolder, 'nftables.json'), `${text}\n`)
}

/** @param {string} name */
function isReady(name) {
  return name !== 'kube-proxy' || process.env.KUBE_PROXY !== undefined
}
