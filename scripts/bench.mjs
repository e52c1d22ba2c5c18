// The benchmarks: node scripts/bench.mjs NAME [ARGUMENT...], or all without a name:
//   ipvs | iptables [--services N] [PART...] | iptables-nft [PART...] | nftables [--scale N] [PART...] | takeovers [FROM TO] | api [PART...] |
//   relay [PART...]
import { setUp } from './setup.mjs'
import { runMain, StepError } from './steps.mjs'
import { benchApi } from './bench/api.mjs'
import { benchIptables, parseIptables } from './bench/iptables.mjs'
import { benchIpvs } from './bench/ipvs.mjs'
import { benchIptablesNft, benchNftables, parseNftables } from './bench/nftables.mjs'
import { benchRelay } from './bench/relay.mjs'
import { benchTakeovers } from './bench/takeovers.mjs'

const names = ['iptables', 'iptables-nft', 'nftables', 'takeovers', 'api', 'relay', 'ipvs']

async function main() {
  const [name, ...rest] = process.argv.slice(2)
  if (name !== undefined && !names.includes(name))
    throw new StepError(`no benchmark ${name}, only ${names.join(', ')}`)
  if (name === 'ipvs' && rest.length > 0) throw new StepError('ipvs has no parts')
  const iptables = parseIptables(name === 'iptables' ? rest : [])
  const nftables = parseNftables(name === 'nftables' ? rest : [])
  const isWanted = (candidate) => name === undefined || name === candidate
  await setUp('demo')
  if (isWanted('iptables')) await benchIptables(iptables)
  if (isWanted('iptables-nft')) await benchIptablesNft(rest)
  if (isWanted('nftables')) await benchNftables(nftables)
  if (isWanted('takeovers')) await benchTakeovers(rest)
  if (isWanted('api')) await benchApi(rest)
  if (isWanted('relay')) await benchRelay(rest)
  if (isWanted('ipvs')) await benchIpvs()
}

await runMain(main)
