// The base chains, which the kernel's hooks call, with their jumps.
import type { NfHook } from '../../../kernel/index.js'
import type { ChainPlan } from './chain-plan.js'
import {
  type Expressions,
  isIn,
  isMartian,
  isNew,
  isTranslated,
  jump,
  packetFields,
  returns,
} from './expressions.js'
import { checks } from './filter-chains.js'
import { hairpinMarking } from './hairpin-chain.js'
import { translations } from './nat-chains.js'
import { schemaOf } from './schema.js'
import type { NftModeSettings } from './settings.js'

/**
 * Priorities of the chains that other programs' chains may contradict: each is 1 before dstnat, filter and srcnat of nft(8), which
 * other programs and iptables use. The kernel passes chains of one hook in the order of their priorities, and of two with the same
 * one, first the one that was registered last (nf_hook_entries_grow in net/netfilter/core.c; ADR 19).
 */
const priorities = { dnat: -101, filter: -1, snat: 99 } as const

/** Source ranges are for the address before translation, which the kernel does at -100 for all chains of type nat. kube-proxy's priority. */
const beforeDnat = -110

export function baseChains(settings: NftModeSettings): readonly ChainPlan[] {
  const firewall = [...isNew, ...jump(checks.firewall)]
  return [
    base('filter-prerouting-pre-dnat', { type: 'filter', hook: 'prerouting', priority: beforeDnat }, [
      firewall,
    ]),
    base('filter-output-pre-dnat', { type: 'filter', hook: 'output', priority: beforeDnat }, [firewall]),
    ...(settings.semantics === 'iptables' ? iptablesChains(settings) : nftablesChains()),
  ]
}

/** kube-proxy's base chains of nftables mode, with its jumps. */
function nftablesChains(): readonly ChainPlan[] {
  const serviceEndpoints = [...isNew, ...jump(checks.serviceEndpoints)]
  const clusterIPs = [...isNew, ...jump(checks.clusterIPs)]
  return [
    base('filter-input', { type: 'filter', hook: 'input', priority: priorities.filter }, [
      [...isNew, ...jump(checks.nodePortEndpoints)],
      serviceEndpoints,
    ]),
    base('filter-forward', { type: 'filter', hook: 'forward', priority: priorities.filter }, [
      serviceEndpoints,
      clusterIPs,
    ]),
    base('filter-output', { type: 'filter', hook: 'output', priority: priorities.filter }, [
      serviceEndpoints,
      clusterIPs,
    ]),
    base('nat-prerouting', { type: 'nat', hook: 'prerouting', priority: priorities.dnat }, [
      jump(translations.services),
    ]),
    base('nat-output', { type: 'nat', hook: 'output', priority: priorities.dnat }, [
      jump(translations.services),
    ]),
    base('nat-postrouting', { type: 'nat', hook: 'postrouting', priority: priorities.snat }, [
      jump(translations.masquerading),
    ]),
  ]
}

/**
 * Each hook comes directly before that of the table of iptables-nft, in which the jumps of kube-proxy's iptables mode are at the
 * head. A frontend refuses at the hooks at which it does there (F-053): at INPUT those for outside traffic, at OUTPUT cluster IPs.
 */
function iptablesChains({ family, localhostNodePorts }: NftModeSettings): readonly ChainPlan[] {
  // KUBE-FIREWALL of table filter comes later, and drops these packets.
  const martians = localhostNodePorts ? [[...isMartian(family), ...returns]] : []
  const toClusterIP = isIn(schemaOf(family).clusterIPs, [packetFields[family].destination])
  const marksHairpins = [...isTranslated, ...jump(hairpinMarking)]
  return [
    base('filter-input', { type: 'filter', hook: 'input', priority: priorities.filter }, [
      ...martians,
      [...isNew, ...jump(checks.nodePortEndpoints)],
      [...isNew, ...jump(checks.externalEndpoints)],
    ]),
    base('filter-forward', { type: 'filter', hook: 'forward', priority: priorities.filter }, [
      // For KUBE-FORWARD, which accepts packets with the mark.
      [...isNew, ...marksHairpins],
      [...isNew, ...jump(checks.serviceEndpoints)],
    ]),
    base('filter-output', { type: 'filter', hook: 'output', priority: priorities.filter }, [
      [...isNew, ...toClusterIP, ...jump(checks.serviceEndpoints)],
    ]),
    base('nat-prerouting', { type: 'nat', hook: 'prerouting', priority: priorities.dnat }, [
      jump(translations.services),
    ]),
    base('nat-output', { type: 'nat', hook: 'output', priority: priorities.dnat }, [
      jump(translations.services),
    ]),
    base('nat-postrouting', { type: 'nat', hook: 'postrouting', priority: priorities.snat }, [
      marksHairpins,
      jump(translations.masquerading),
    ]),
  ]
}

function base(chain: string, hook: NfHook, rules: readonly Expressions[]): ChainPlan {
  return { chain, hook, rules: rules.map((expressions) => ({ expressions })) }
}
