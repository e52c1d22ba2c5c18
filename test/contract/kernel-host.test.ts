// The contracts on the kernel of this machine, except those for IP_VS and the dummy device. Run it in its own namespace:
// unshare -n sh -c 'ip link set lo up && node --test out/ts/test/contract/kernel-host.test.js'
import type { Nftables } from '../../src/kernel/index.js'
import { flushFlows, insertFlows, listFlows, nameFlow } from '../support/conntrack-flows.js'
import { mustRun } from '../support/processes.js'
import { conntrackContract, type ConntrackSubject } from './conntrack.contract.js'
import { openRealIpset } from './ipset-subjects.js'
import { ipsetContract } from './ipset.contract.js'
import { openRealKernel } from './real-kernel.js'
import { requireFreshNamespace } from './fresh-namespace.js'
import { openRealLook } from './kernel-look-subjects.js'
import { kernelLookContract } from './kernel-look.contract.js'
import { linksContract } from './links.contract.js'
import { nftChainsContract, type NftChainsSubject } from './nft-chains.contract.js'
import { nftElementsContract } from './nft-elements.contract.js'
import { nftablesContract } from './nftables.contract.js'
import { portsContract, type PortsSubject } from './ports.contract.js'
import { takePort } from '../support/port-taker.js'
import { openRealRelay } from './relay-subjects.js'
import { relayContract } from './relay.contract.js'
import { routesContract } from './routes.contract.js'
import { sysctlContract } from './sysctl.contract.js'
import { openRealNftSubject, openRealSubject } from './xtables-subjects.js'
import { xtablesContract } from './xtables.contract.js'

requireFreshNamespace()
ipsetContract('kernel', openRealIpset)
relayContract('kernel', openRealRelay)
routesContract('kernel', () => openRealKernel().routes)
linksContract('kernel', openRealKernel, false)
kernelLookContract('kernel', openRealLook, { hasIpvs: false })
sysctlContract('kernel', () => openRealKernel().sysctl)
xtablesContract('kernel', openRealSubject)
xtablesContract('kernel, flavour nft', openRealNftSubject)

function realConntrack(): ConntrackSubject {
  const { conntrack } = openRealKernel()
  return {
    conntrack,
    put: async (flows) => {
      await flushFlows()
      if (flows.length > 0) await insertFlows(flows)
    },
    list: listFlows,
  }
}

conntrackContract('kernel', realConntrack, nameFlow)

function realPorts(): PortsSubject {
  const { ports } = openRealKernel()
  return {
    ports,
    take: async (taken) => {
      const taker = await takePort(taken)
      return taker && (async () => await taker.kill())
    },
  }
}

portsContract('kernel', realPorts)

function realNftChains(): NftChainsSubject {
  const kernel = openRealKernel()
  return {
    nftChains: kernel.nftChains,
    xtables: (family, table) => kernel.xtables(family, table),
    addChains: async (family, chains) => {
      const restore = family === 'ipv4' ? 'iptables-nft-restore' : 'ip6tables-nft-restore'
      const tables = [...new Set(chains.map(({ table }) => table))]
      const names = (table: string): string =>
        chains.flatMap((made) => (made.table === table ? [`:${made.chain} - [0:0]\n`] : [])).join('')
      const text = tables.map((table) => `*${table}\n${names(table)}COMMIT\n`).join('')
      await mustRun(['sh', '-c', `${restore} --noflush <<'EOF'\n${text}EOF\n`])
    },
  }
}

function openRealNftables(): Nftables {
  return openRealKernel().nftables
}

const realNftables = () => ({
  nftables: openRealNftables(),
  other: openRealNftables(),
  openThird: openRealNftables,
})
nftablesContract('kernel', realNftables)
nftElementsContract('kernel', realNftables)
nftChainsContract('kernel', realNftChains)
