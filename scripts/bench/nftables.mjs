// The benchmarks of the modes with a table of nf_tables, on this machine's kernel, in network namespaces: they run their parts one after
// the other, print every figure with its target, and write out/bench/NAME.json.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { step, StepError } from '../steps.mjs'
import { parts as iptablesNftParts } from './iptables-nft-rows.mjs'
import { parts as nftablesParts } from './nftables-rows.mjs'
import { benchFolder, compileProgram, measurePart } from './programs.mjs'
import { line } from './rows.mjs'

const limitSeconds = 600

/**
 * NB: all programs must be compiled and bundled.
 * @param {readonly string[]} names of parts; none: all, and those with a kube-proxy only if KUBE_PROXY names one
 */
export async function benchNftables(names) {
  await benchParts('nftables', nftablesParts, names)
}

/** As `benchNftables`, of iptables mode on nf_tables. @param {readonly string[]} names */
export async function benchIptablesNft(names) {
  await benchParts('iptables-nft', iptablesNftParts, names)
}

/**
 * @param {'iptables-nft' | 'nftables'} benchmark
 * @param {Readonly<Record<string, import('./rows.mjs').Part>>} parts
 * @param {readonly string[]} names
 */
async function benchParts(benchmark, parts, names) {
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
      measurePart(benchmark, [name, connect, floor], { limitSeconds }),
    )
    results[name] = { load, figures }
    console.log(`\n${title} (load before: ${load.toFixed(2)})`)
    for (const row of rows(figures)) console.log(line(row, true))
  }
  const text = JSON.stringify({ ...machine, date: new Date().toISOString(), parts: results }, undefined, 2)
  writeFileSync(join(benchFolder, `${benchmark}.json`), `${text}\n`)
}

/** @param {string} name */
function isReady(name) {
  return !name.startsWith('kube-proxy') || process.env.KUBE_PROXY !== undefined
}
