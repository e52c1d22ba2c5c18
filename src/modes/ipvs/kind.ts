import { KernelError, orRefusal } from '../../errors.js'
import type { ModeKind } from '../../engine/index.js'
import { cleanUp, countVips, describeCleanUp, hasRemoved, isWithoutIpvs } from './clean-up.js'
import { isWithoutIpset, mangleChains } from '../../layers/ipvs/index.js'
import { openIpvsMode } from './mode.js'
import { isWithoutSetRules } from './rules-probe.js'
import { cleanUpXtables } from '../../layers/shared/index.js'
import { type KernelLack, natGuardTables, setModules } from '../../kernel/index.js'
import { cleanUpNatGuard } from '../../layers/vips/index.js'

/** ipvs mode. */
export const ipvsKind: ModeKind = {
  name: 'ipvs',
  open: openIpvsMode,
  flavours: ['legacy', 'nft'],
  chains: {
    nat: ['KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER'],
    filter: ['KUBE-NODE-PORT', 'KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-IPVS-FILTER', 'KUBE-IPVS-OUT-FILTER'],
    mangle: mangleChains,
  },
  lackOf,
  countVips,
  cleanUp: async ({ kernel, excludeCidrs, flavours }) => {
    // First: it keeps the rules of the mode that runs now from connections.
    const guard = await cleanUpNatGuard(kernel.nftChains, natGuardTables.ipvs)
    // iptables mode makes no chain in mangle. The sets that the rules match can be removed after the rules.
    const mangle = await cleanUpXtables(kernel, { mangle: mangleChains }, flavours)
    // The removed chains are reported also when the rest cannot be read.
    const report = await orRefusal(
      () => cleanUp(kernel, excludeCidrs),
      () => mangle.hasRemoved || guard.texts.length > 0,
    )
    const isUnread = report instanceof KernelError
    const texts = [
      ...guard.texts,
      ...(mangle.hasRemoved || isUnread ? [mangle.text] : []),
      ...(isUnread ? [] : [describeCleanUp({ ...report, failures: [] })]),
    ]
    const errors = [...guard.failures, ...(isUnread ? [report] : report.failures)]
    return {
      text: texts.join('; '),
      hasRemoved: mangle.hasRemoved || guard.texts.length > 0 || (!isUnread && hasRemoved(report)),
      failures: [...mangle.failures, ...errors.map(({ message }) => message)],
    }
  },
}

const otherMode = 'use --proxy-mode=iptables'

function lackOf(error: KernelError): KernelLack | undefined {
  if (isWithoutIpvs(error)) return { part: 'IP_VS', modules: ['ip_vs'] }
  if (isWithoutSetRules(error))
    return {
      part: `nf_tables with what ipvs mode needs (${error.object})`,
      modules: error.object === 'tables' ? ['nf_tables'] : ['xt_set'],
      instead: otherMode,
    }
  if (!isWithoutIpset(error)) return undefined
  return error.code === 'EPROTONOSUPPORT'
    ? { part: 'ipset', modules: setModules, instead: otherMode }
    : { part: 'sets of a type that ipvs mode needs', modules: moduleIn(error), instead: otherMode }
}

/** The module of the type, which the words of the kernel's error name. */
function moduleIn({ extack }: KernelError): readonly string[] {
  return /\bip_set_\w+/u.exec(extack ?? '') ?? []
}
