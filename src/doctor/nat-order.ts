// Rules of table nat that come before those of Services: the kernel translates a connection once.
import { decidingRules, rulesBeforeServices } from '../host/index.js'
import { describeChainPlace, type FirewallChain, isOwnTable } from '../kernel/index.js'
import { type Check, type Examined, ok, partProblemsOr, type Verdict } from './check.js'

/** A node may have many chains that are alike. */
const mostChains = 8

const translatedOnce =
  'The kernel translates a connection once: what this chain translates never reaches a Service.'

export const natRulesCheck: Check = {
  name: 'nat-rules',
  looksAt:
    'in iptables mode of the flavour nft, rules of table nat before the jump to KUBE-SERVICES that accept, translate or drop packets',
  run: async (node) => {
    if (node.modes.chosen !== 'iptables (nft)')
      return ok('in this mode rules before the jump to KUBE-SERVICES have effect')
    const found: Verdict[] = []
    for (const family of ['ipv4', 'ipv6'] as const)
      for (const { text } of await rulesBeforeServices(node.kernel, family))
        found.push({
          status: 'warning',
          seen: `${text} comes before the jump to KUBE-SERVICES`,
          cause:
            "The rule has no effect on connections to Services: Viaduct's own table, with priority -101, translates them before.",
          remedy:
            'Translate in a chain of nf_tables with type nat and a priority below -101, drop in table mangle, or use --iptables-flavour=legacy.',
        })
    return partProblemsOr(
      node,
      ['nf_tables'],
      found.slice(0, mostChains),
      'no rule before the jump to KUBE-SERVICES decides',
    )
  },
}

export const natOrderCheck: Check = {
  name: 'nat-order',
  looksAt:
    'base chains of type nat of other programs, with their priorities and, where these equal that of Viaduct, with their rules',
  run: async (node) =>
    partProblemsOr(
      node,
      ['nf_tables'],
      (await earlierChains(node)).slice(0, mostChains),
      "no nat chain comes before Viaduct's",
    ),
}

/** The priority of the chain of type nat from which the mode's rules start. */
function ownPriority({ modes: { chosen = '' } }: Examined): number {
  // The others have a jump in table nat of x_tables, whose priority iptables sets (NF_IP_PRI_NAT_DST).
  return chosen === 'nftables' || chosen === 'iptables (nft)' ? -101 : -100
}

/**
 * The chains of other programs that come before that of the mode, as nf_hook_entries_grow() of net/netfilter/core.c orders them: by
 * priority, and of two with the same one, first the one that was registered last. The kernel does not tell when a chain was registered.
 */
async function earlierChains(node: Examined): Promise<readonly Verdict[]> {
  const own = ownPriority(node)
  const found = new Map<string, Verdict>()
  for (const family of ['ipv4', 'ipv6'] as const) {
    const chains = await node.kernel.firewall(family, {
      isLeftOut: isOwnTable,
      hasLegacyNat: false,
    })
    for (const chain of chains) {
      const verdict = await verdictOf(node, own, chain, chains)
      // A chain of both families is read with each of them.
      if (verdict !== undefined) found.set(describeChainPlace(chain), verdict)
    }
  }
  return [...found.values()]
}

async function verdictOf(
  node: Examined,
  own: number,
  chain: FirewallChain,
  chains: readonly FirewallChain[],
): Promise<Verdict | undefined> {
  const { hook, natOrder = Infinity } = chain.entrance ?? {}
  if ((hook !== 'prerouting' && hook !== 'output') || natOrder > own || isShared(node, chain))
    return undefined
  const place = describeChainPlace(chain)
  if (natOrder < own)
    return {
      status: 'warning',
      seen: `${place} has priority ${natOrder}, before ${own}`,
      cause: translatedOnce,
      remedy: `Let the other program use a priority above ${own}, or exclude the addresses of Services there.`,
    }
  const rule = (await decidingRules(chain, chains)).find(({ mayTranslate }) => mayTranslate)
  if (rule === undefined) return undefined
  return {
    status: 'warning',
    seen: `${place} has priority ${own}, as Viaduct's rules have, and may translate connections by ${rule.text}`,
    cause:
      'Of two chains with the same priority, the kernel passes the one first that was registered last, and it translates a connection once.',
    remedy:
      own === -100
        ? 'Let the other program use a priority above -100, or use nftables mode, whose chains come before those with priority -100.'
        : `Let the other program use a priority above ${own}.`,
  }
}

/** Whether the chain has the jump to Viaduct's rules. */
function isShared(
  { modes: { chosen = '', flavour } }: Examined,
  { flavour: found, family, table }: FirewallChain,
): boolean {
  return chosen !== 'nftables' && flavour === 'nft' && found === 'nft' && family !== 'inet' && table === 'nat'
}
