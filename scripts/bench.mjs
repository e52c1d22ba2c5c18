// The benchmarks: node scripts/bench.mjs [ipvs | iptables [--services N] [PART...]], both without a name.
import { setUp } from './setup.mjs'
import { runMain, StepError } from './steps.mjs'
import { benchIptables, parseIptables } from './bench/iptables.mjs'
import { benchIpvs } from './bench/ipvs.mjs'

async function main() {
  const [name, ...rest] = process.argv.slice(2)
  if (name !== undefined && name !== 'ipvs' && name !== 'iptables')
    throw new StepError(`no benchmark ${name}, only ipvs and iptables`)
  if (name === 'ipvs' && rest.length > 0) throw new StepError('ipvs has no parts')
  const iptables = parseIptables(rest)
  await setUp('demo')
  if (name !== 'ipvs') await benchIptables(iptables)
  if (name !== 'iptables') await benchIpvs()
}

await runMain(main)
