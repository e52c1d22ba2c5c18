// The base chains, which the kernel's hooks call, with their jumps.
import type { NfHook } from '../../../kernel/index.js'
import type { ChainPlan, StructureUse } from './chain-plan.js'
import { type Expressions, isIn, isNew, isTranslated, jump, packetFields } from './expressions.js'
import { checks } from './filter-chains.js'
import { translations } from './nat-chains.js'
import { schemaOf } from './schema.js'
import type { NftModeSettings } from './settings.js'

export function baseChains(settings: NftModeSettings, use: StructureUse): readonly ChainPlan[] {
  const hasAffinity = use.services.affinitySeconds.size + use.nodePorts.affinitySeconds.size > 0
  const record = hasAffinity ? [[...isNew, ...isTranslated, ...jump(checks.affinity)]] : []
  const firewall = [...isNew, ...jump(checks.firewall)]
  return [
    base('filter-prerouting-pre-dnat', { type: 'filter', hook: 'prerouting', priority: -110 }, [firewall]),
    base('filter-output-pre-dnat', { type: 'filter', hook: 'output', priority: -110 }, [firewall]),
    ...(settings.semantics === 'iptables' ? iptablesChains(settings, record) : nftablesChains(record)),
  ]
}

/** kube-proxy's base chains of nftables mode, with its priorities and jumps, and a jump that records session affinity. */
function nftablesChains(record: readonly Expressions[]): readonly ChainPlan[] {
  const serviceEndpoints = [...isNew, ...jump(checks.serviceEndpoints)]
  const clusterIPs = [...isNew, ...jump(checks.clusterIPs)]
  return [
    base('filter-input', { type: 'filter', hook: 'input', priority: 0 }, [
      [...isNew, ...jump(checks.nodePortEndpoints)],
      serviceEndpoints,
      ...record,
    ]),
    base('filter-forward', { type: 'filter', hook: 'forward', priority: 0 }, [
      serviceEndpoints,
      clusterIPs,
      ...record,
    ]),
    base('filter-output', { type: 'filter', hook: 'output', priority: 0 }, [
      serviceEndpoints,
      clusterIPs,
      ...record,
    ]),
    base('nat-prerouting', { type: 'nat', hook: 'prerouting', priority: -100 }, [
      jump(translations.services),
    ]),
    base('nat-output', { type: 'nat', hook: 'output', priority: -100 }, [jump(translations.services)]),
    base('nat-postrouting', { type: 'nat', hook: 'postrouting', priority: 100 }, [
      jump(translations.masquerading),
    ]),
  ]
}

/**
 * Each hook comes directly before that of the table of iptables-nft, in which the jumps of kube-proxy's iptables mode are at the
 * head. Which frontends refuse at which hook is as there (F-053): at INPUT those for outside traffic, at OUTPUT cluster IPs.
 */
function iptablesChains({ family }: NftModeSettings, record: readonly Expressions[]): readonly ChainPlan[] {
  const toClusterIP = isIn(schemaOf(family).clusterIPs, [packetFields[family].destination])
  return [
    base('filter-input', { type: 'filter', hook: 'input', priority: -1 }, [
      [...isNew, ...jump(checks.nodePortEndpoints)],
      [...isNew, ...jump(checks.externalEndpoints)],
      ...record,
    ]),
    base('filter-forward', { type: 'filter', hook: 'forward', priority: -1 }, [
      [...isNew, ...jump(checks.serviceEndpoints)],
      ...record,
    ]),
    base('filter-output', { type: 'filter', hook: 'output', priority: -1 }, [
      [...isNew, ...toClusterIP, ...jump(checks.serviceEndpoints)],
      ...record,
    ]),
    base('nat-prerouting', { type: 'nat', hook: 'prerouting', priority: -101 }, [
      jump(translations.services),
    ]),
    base('nat-output', { type: 'nat', hook: 'output', priority: -101 }, [jump(translations.services)]),
  ]
}

function base(chain: string, hook: NfHook, rules: readonly Expressions[]): ChainPlan {
  return { chain, hook, rules: rules.map((expressions) => ({ expressions })) }
}
