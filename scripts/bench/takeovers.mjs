// Takeovers between kube-proxy and the agent, in every mode and flavour of x_tables, on this machine's kernel: prints for each pair the
// connections that were tried and that failed, and writes out/bench/takeovers.json.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { step, StepError } from '../steps.mjs'
import { benchFolder, measurePart } from './programs.mjs'

const limitSeconds = 300
const ours = ['iptables-nft', 'iptables-legacy', 'nftables']
const peers = ['kube-proxy iptables-nft', 'kube-proxy iptables-legacy', 'kube-proxy nftables']
const centre = 'iptables-nft'

/**
 * @param {readonly string[]} names `[FROM TO]`; none: into iptables mode on nf_tables from all others, and back
 */
export async function benchTakeovers(names) {
  const known = [...ours, ...peers]
  for (const name of names)
    if (!known.includes(name)) throw new StepError(`no proxy ${name}, only ${known.join(', ')}`)
  if (names.length !== 0 && names.length !== 2) throw new StepError('takeovers needs FROM and TO, or nothing')
  /** @type {any[]} */
  const results = []
  for (const [from = '', to = ''] of names.length === 2 ? [names] : pairs()) {
    const figures = await step(`Taking over from ${from} to ${to}`, () =>
      measurePart('takeovers', [from, to], { limitSeconds }),
    )
    results.push({ from, to, ...figures })
    console.log(row(results.at(-1)))
  }
  writeFileSync(join(benchFolder, 'takeovers.json'), `${JSON.stringify(results, undefined, 2)}\n`)
}

/** @returns {readonly (readonly string[])[]} */
function pairs() {
  const others = [...(process.env.KUBE_PROXY === undefined ? [] : peers), ...ours]
  return [
    ...others.map((from) => [from, centre]),
    ...others.filter((to) => to !== centre).map((to) => [centre, to]),
  ]
}

/** @param {any} figures */
function row({ from, to, tried, failed, retransmitted, slowestMs, failures, stale, foreign, left }) {
  const counts = `${tried} tried, ${failed} failed, ${retransmitted} with a lost segment, slowest ${slowestMs} ms`
  const chains = Object.entries(left).map(([place, count]) => `${count} ${place}`)
  const lines = [
    `  ${from} -> ${to}: ${counts}`,
    `    stale endpoints: ${stale.length}; lines of others changed: ${foreign.length}; left: ${chains.join(', ')}`,
    ...[...failures, ...stale, ...foreign].map((text) => `    ${text}`),
  ]
  return lines.join('\n')
}
