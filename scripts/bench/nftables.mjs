// The benchmarks of the modes with a table of nf_tables, on this machine's kernel, in network namespaces: they run their parts one after
// the other, print every figure with its target, and write out/bench/NAME.json.
import { writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { step, StepError } from '../steps.mjs'
import { parts as iptablesNftParts } from './iptables-nft-rows.mjs'
import { parts as nftablesParts } from './nftables-rows.mjs'
import { benchFolder, compileProgram, measurePart } from './programs.mjs'
import { line } from './rows.mjs'
import { tenantForms } from './tenant-rows.mjs'

const limitSeconds = 600
/** With a longer one, a run of the part `tenants` might not end in time. */
const mostSeconds = 120
const usage = 'nftables [--seconds N] [--scale N] [--forms A,B] [--programs A,B] [PART...]'

/** @typedef {Omit<import('./rows.mjs').RunOptions, 'flood'> & { readonly names: readonly string[] }} Request */

/**
 * The arguments of the benchmark `nftables`. @param {readonly string[]} args
 * @returns {Request} names of parts; none: all, and those with a kube-proxy only if KUBE_PROXY names one
 */
export function parseNftables(args) {
  const { values, positionals: names } = read(args)
  const [seconds, scale] = [Number(values.seconds), Number(values.scale)]
  if (!Number.isInteger(seconds) || seconds < 4 || seconds > mostSeconds)
    throw new StepError(`--seconds ${values.seconds} is not from 4 to ${mostSeconds}`)
  if (!(scale > 0 && scale <= 1)) throw new StepError(`--scale ${values.scale} is not above 0, and at most 1`)
  const forms = values.forms?.split(',')
  for (const form of forms ?? [])
    if (!tenantForms.includes(form)) throw new StepError(`no form ${form}, only ${tenantForms.join(', ')}`)
  const programs = values.programs?.split(',') ?? ['ours', ...(process.env.KUBE_PROXY ? ['kube-proxy'] : [])]
  for (const program of programs)
    if (program !== 'ours' && program !== 'kube-proxy')
      throw new StepError(`--programs ${program} is neither ours nor kube-proxy`)
  return { names, seconds, scale, forms, programs }
}

/** @param {readonly string[]} args */
function read(args) {
  const option = /** @type {const} */ ({ type: 'string' })
  try {
    return parseArgs({
      args: [...args],
      options: {
        seconds: { ...option, default: '65' },
        scale: { ...option, default: '1' },
        forms: option,
        programs: option,
      },
      allowPositionals: true,
    })
  } catch (error) {
    throw new StepError(`${error.message}; usage: ${usage}`)
  }
}

/** NB: all programs must be compiled and bundled. @param {Request} request */
export async function benchNftables({ names, ...options }) {
  await benchParts('nftables', nftablesParts, names, options)
}

/** As `benchNftables`, of iptables mode on nf_tables. @param {readonly string[]} names */
export async function benchIptablesNft(names) {
  await benchParts('iptables-nft', iptablesNftParts, names, { seconds: 0, scale: 1, programs: [] })
}

/**
 * @param {'iptables-nft' | 'nftables'} benchmark
 * @param {Readonly<Record<string, import('./rows.mjs').Part>>} parts
 * @param {readonly string[]} names
 * @param {Omit<import('./rows.mjs').RunOptions, 'flood'>} options
 */
async function benchParts(benchmark, parts, names, options) {
  for (const name of names)
    if (!(name in parts)) throw new StepError(`no part ${name}, only ${Object.keys(parts).join(', ')}`)
  const connect = await compileProgram('connect')
  const floor = await compileProgram('nft_floor')
  const flood = await compileProgram('flood')
  const machine = { kernel: release(), node: process.version, cores: cpus().length }
  console.log(`\nkernel ${machine.kernel}, node ${machine.node}, ${machine.cores} cores`)
  /** @type {Record<string, { load: number, figures: any }>} */
  const results = {}
  for (const name of names.length === 0 ? Object.keys(parts).filter(isReady) : names) {
    const load = loadavg()[0] ?? Number.NaN
    const { title, rows, runs } = parts[name]
    const all = []
    for (const more of runs?.({ ...options, flood }) ?? [[]])
      all.push(
        await step(`Measuring ${[title, ...more.slice(1, 3)].join(' ')}`, () =>
          measurePart(benchmark, [name, connect, floor, ...more], { limitSeconds }),
        ),
      )
    const figures = runs === undefined ? all[0] : all
    results[name] = { load, figures }
    console.log(`\n${title} (load before: ${load.toFixed(2)})`)
    for (const row of rows(figures)) console.log(line(row, options.scale === 1))
  }
  const text = JSON.stringify({ ...machine, date: new Date().toISOString(), parts: results }, undefined, 2)
  writeFileSync(join(benchFolder, `${benchmark}.json`), `${text}\n`)
}

/** @param {string} name */
function isReady(name) {
  return !name.startsWith('kube-proxy') || process.env.KUBE_PROXY !== undefined
}
