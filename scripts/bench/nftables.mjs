// The benchmark of nf_tables: elements through the addon, compared with a plain C program that sends the same elements.
import { must, step } from '../steps.mjs'
import { compileProgram } from './programs.mjs'
import { formats, line } from './rows.mjs'

/** Rounds of addon and C program in turns. The result is the median. */
const rounds = 5
const sizes = [
  [10_000, 10],
  [100, 1],
  [10_000, 1],
  [50_000, 1],
]
const targets = { ratio: 3, changeUs: 50 }
const inNewNamespace = ['unshare', '--net']

/**
 * @param {readonly string[]} command
 * @returns {Promise<{ seconds: number, changeMicroseconds: number, systemMicroseconds?: number }>}
 */
async function figuresOf(command) {
  return JSON.parse(await must([...inNewNamespace, ...command]))
}

/** @param {readonly number[]} values */
function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
}

export async function benchNftables() {
  const floor = await compileProgram('nft_floor')
  const addon = [process.execPath, 'out/ts/bench/nftables/elements.js']
  for (const [services, endpoints] of sizes) {
    const runs = []
    await step(`nf_tables, ${services} x ${endpoints}`, async () => {
      const size = [String(services), String(endpoints)]
      for (let round = 0; round < rounds; round++)
        runs.push({ ours: await figuresOf([...addon, ...size]), floor: await figuresOf([floor, ...size]) })
    })
    const middle = (/** @type {(run: typeof runs[number]) => number} */ of) => median(runs.map(of))
    const rows = [
      { what: 'first sync, C program', value: middle((run) => run.floor.seconds * 1000), format: formats.ms },
      { what: 'first sync, addon', value: middle((run) => run.ours.seconds * 1000), format: formats.ms },
      {
        what: 'first sync, addon against C',
        value: middle((run) => run.ours.seconds / run.floor.seconds),
        format: formats.times,
        // Smaller transactions mainly measure the way to the worker thread and back.
        ...(services * endpoints >= 100_000 ? { target: ['<=', targets.ratio] } : {}),
      },
      {
        what: 'one element changed, system call of the C program',
        value: middle((run) => run.floor.changeMicroseconds),
        format: formats.us,
        target: ['<=', targets.changeUs],
      },
      {
        what: 'one element changed, addon, from the call to its answer',
        value: middle((run) => run.ours.changeMicroseconds),
        format: formats.us,
      },
      {
        what: 'one element changed, addon, system time of all its threads',
        value: middle((run) => run.ours.systemMicroseconds),
        format: formats.us,
        target: ['<=', targets.changeUs],
      },
    ]
    for (const row of rows) process.stdout.write(`${line(row, true)}\n`)
  }
}
