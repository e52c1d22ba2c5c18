// The model and the kernel, for ipset.contract.ts.
import { openModelKernel } from '../model/index.js'
import type { IpsetSubject } from './ipset.contract.js'
import { openRealKernel } from './real-kernel.js'

export function openModelIpset(): IpsetSubject {
  const { ipset } = openModelKernel()
  return {
    ipset,
    refer: async (name) => {
      ipset.references.clear()
      if (name !== undefined) ipset.references.set(name, 1)
    },
  }
}

export function openRealIpset(): IpsetSubject {
  const kernel = openRealKernel()
  let isReferred = false
  return {
    ipset: kernel.ipset,
    refer: async (name) => {
      if (name === undefined && !isReferred) return
      await kernel.nftChains.loadXtables('ipv4') // in the guest ip_tables may not be loaded
      const set = name === undefined ? [] : [{ name, directions: ['dst'] } as const]
      const rules = set.map((match) => ({ set: match, target: { kind: 'return' } as const }))
      await kernel.xtables('ipv4', 'filter').apply([{ op: 'set-hook', chain: 'INPUT', rules }])
      isReferred = name !== undefined
    },
  }
}
