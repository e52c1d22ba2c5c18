import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import { ModelNftNamespace, openModelKernel } from '../model/index.js'
import { nameFlow } from '../support/conntrack-flows.js'
import { conntrackContract, type ConntrackSubject } from './conntrack.contract.js'
import { openModelIpset } from './ipset-subjects.js'
import { ipsetContract } from './ipset.contract.js'
import { ipvsContract } from './ipvs.contract.js'
import { openModelLook } from './kernel-look-subjects.js'
import { kernelLookContract } from './kernel-look.contract.js'
import { linksContract } from './links.contract.js'
import { nftChainsContract, type NftChainsSubject } from './nft-chains.contract.js'
import { nftElementsContract } from './nft-elements.contract.js'
import { nftablesContract, type NftablesSubject } from './nftables.contract.js'
import { portsContract, type PortsSubject } from './ports.contract.js'
import { openModelRelay } from './relay-subjects.js'
import { relayContract } from './relay.contract.js'
import { routesContract } from './routes.contract.js'
import { sysctlContract } from './sysctl.contract.js'
import { openModelNftSubject } from './xtables-nft-model.js'
import { openModelSubject } from './xtables-subjects.js'
import { xtablesContract } from './xtables.contract.js'

ipsetContract('model', openModelIpset)
ipvsContract('model', () => openModelKernel().ipvs)
relayContract('model', openModelRelay)
routesContract('model', () => openModelKernel().routes)
linksContract('model', openModelKernel, true)
kernelLookContract('model', openModelLook, { hasIpvs: true })
sysctlContract('model', () => openModelKernel().sysctl)
xtablesContract('model', openModelSubject)
xtablesContract('model, flavour nft', openModelNftSubject)

function modelConntrack(): ConntrackSubject {
  const { conntrack } = openModelKernel()
  return {
    conntrack,
    put: async (flows) => {
      conntrack.flows = flows
    },
    list: async () => conntrack.flows.map(nameFlow).toSorted(),
  }
}

conntrackContract('model', modelConntrack, nameFlow)

function modelPorts(): PortsSubject {
  const { ports } = openModelKernel()
  return {
    ports,
    take: async (taken) => {
      if (!ports.take({ ...taken, uid: 0, process: { pid: 7, name: 'python3' } })) return undefined
      return async () => {
        ports.programs = []
      }
    },
  }
}

portsContract('model', modelPorts)

/** The nf_tables of a model kernel. Its legacy tables exist after `loadXtables`. */
function modelNftChains(): NftChainsSubject {
  const kernel = openModelKernel()
  const { nftChains } = kernel
  const loaded = new Set<IpFamily>()
  nftChains.onLoadXtables = (family) => loaded.add(family)
  for (const family of ['ipv4', 'ipv6'] as const) {
    const callFault = (): number | undefined => (loaded.has(family) ? undefined : constants.errno.ENOPROTOOPT)
    kernel.xtables(family, 'nat').plan = { callFault }
  }
  return {
    nftChains,
    xtables: (family, table) => kernel.xtables(family, table),
    addChains: async (family, chains) => {
      nftChains.chains[family] = [...nftChains.chains[family], ...chains]
    },
  }
}

nftChainsContract('model', modelNftChains)

function modelNftables(): NftablesSubject {
  const nftNamespace = new ModelNftNamespace()
  const open = () => openModelKernel({ nftNamespace }).nftables
  return { nftables: open(), other: open(), openThird: open }
}

nftablesContract('model', modelNftables)
nftElementsContract('model', modelNftables)
