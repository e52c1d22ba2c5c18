import type { KernelError } from '../../errors.js'
import type { ModeKind } from '../../engine/index.js'
import { cleanUp, describeCleanUp, isWithoutIpvs } from './clean-up.js'
import { cleanUpMangle } from './clean-up-sets.js'
import { mangleChains } from './compile/chains.js'
import { openIpvsMode } from './mode.js'
import { isWithoutIpset } from './set-types.js'

/** ipvs mode. */
export const ipvsKind: ModeKind = {
  name: 'ipvs',
  open: openIpvsMode,
  chains: {
    nat: ['KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER'],
    filter: ['KUBE-NODE-PORT', 'KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-IPVS-FILTER', 'KUBE-IPVS-OUT-FILTER'],
    mangle: mangleChains,
  },
  lackOf,
  cleanUp: async ({ kernel, excludeCidrs }) => {
    const kept = await cleanUpMangle(kernel)
    const report = await cleanUp(kernel, excludeCidrs)
    const hasRemoved = report.virtualServers + report.routes + report.sets > 0 || report.device
    return {
      text: describeCleanUp({ ...report, failures: [] }),
      hasRemoved,
      failures: [...kept, ...report.failures.map(({ message }) => message)],
    }
  },
}

function lackOf(error: KernelError): string | undefined {
  if (isWithoutIpvs(error))
    return 'this kernel has no IP_VS: load it with "modprobe ip_vs", or run a kernel that has it'
  if (!isWithoutIpset(error)) return undefined
  const lack =
    error.code === 'EPROTONOSUPPORT'
      ? 'has no ipset: load it with "modprobe ip_set"'
      : 'lacks a type of sets: load it'
  return `this kernel ${lack}, or use --proxy-mode=iptables`
}
