// Rules of other programs that meet Viaduct's, and those of table nat that come before: the kernel translates a connection once.
import { KernelError, orRefusal } from '../errors.js'
import {
  filesWithTable,
  realFiles,
  savedTableConsequence,
  savedTableRemedy,
  decidingRules,
  rulesBeforeServices,
} from '../host/index.js'
import {
  type ChainPlace,
  describeChainPlace,
  describePolicyRule,
  isOwnTable,
  type FirewallChain,
} from '../kernel/index.js'
import { type Check, type Examined, partProblemsOr, problemsOr, type Verdict, ok } from './check.js'

/** The mark by which kubelet before 1.28 asks for a drop. */
const dropMark = 0x8000
/** The mask of a rule that compares the whole mark. */
const everyBit = 0xffffffff
/** A node may have thousands of rules that are alike. */
const mostRules = 8
const otherBits =
  'Give the other program other bits, or change iptables.masqueradeBit, nftables.masqueradeBit or --ipvs-mark-mask.'

export const ruleChecks: readonly Check[] = [
  {
    name: 'mark-bits',
    looksAt:
      'rules of other programs, in the legacy tables, nf_tables and policy routing, that match or set bits of the mark that Viaduct or kubelet uses',
    run: async (node) => {
      const own = ownBits(node)
      return partProblemsOr(
        node,
        ['nf_tables'],
        [...(await packetRules(node, own)), ...(await routingRules(node, own))],
        `no other program uses the mark bits ${hex(own)}`,
      )
    },
  },
  {
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
  },
  {
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
  },
  {
    name: 'saved-rules',
    looksAt:
      "the files that nftables.service loads, and those that they include: Viaduct's table kube-proxy in them",
    run: async ({ read }) =>
      problemsOr(
        (await filesWithTable({ ...realFiles, read: async (path) => await read(path) })).map((path) => ({
          status: 'warning',
          seen: `${path}, which nftables.service loads, has the table kube-proxy`,
          cause: savedTableConsequence,
          remedy: savedTableRemedy,
        })),
        'no saved ruleset has the table kube-proxy',
      ),
  },
]

/** Rules of the legacy tables and of nf_tables that match or set our bits. */
async function packetRules({ kernel }: Examined, own: number): Promise<readonly Verdict[]> {
  const uses = (await kernel.findMarkUses(isForeign)).filter(({ bits }) => (bits & own) !== 0)
  const found = uses.slice(0, mostRules).map((use): Verdict => ({
    status: 'warning',
    seen: `rule ${use.rule + 1} of ${describeChainPlace(use)} ${use.isSet ? 'sets' : 'matches'} the mark bits ${hex(use.bits & own)}`,
    cause: use.isSet
      ? 'Viaduct masquerades or routes these packets, or kubelet drops them, although no Service asks for it.'
      : "The rule takes Viaduct's marked packets for packets of the other program.",
    remedy: otherBits,
  }))
  return [...found, ...moreRules(uses.length, `match or set the mark bits ${hex(own)}`)]
}

/** Policy routing rules whose result depends on our bits. Viaduct has no such rules, and the kernel's own do not look at the mark. */
async function routingRules({ kernel }: Examined, own: number): Promise<readonly Verdict[]> {
  const all = await orRefusal(async () => [
    ...(await kernel.policyRules('ipv4')),
    ...(await kernel.policyRules('ipv6')),
  ])
  if (all instanceof KernelError) return [unreadRouting(all)]
  const rules = all.filter(({ markMask }) => (markMask & own) !== 0)
  const found = rules.slice(0, mostRules).map((rule): Verdict => ({
    status: 'warning',
    seen: `ip ${rule.family === 'ipv4' ? '-4' : '-6'} rule "${describePolicyRule(rule)}" depends on the mark bits ${hex(rule.markMask & own)}`,
    cause: "Packets with Viaduct's marks may take another route than the same packets without them.",
    remedy:
      rule.markMask === everyBit
        ? `Let the rule compare only its own bits, as in fwmark 0x1/0x1; none of them may be in ${hex(own)}.`
        : otherBits,
  }))
  return [...found, ...moreRules(rules.length, `of policy routing depend on the mark bits ${hex(own)}`)]
}

function unreadRouting({ message }: KernelError): Verdict {
  return {
    status: 'unknown',
    seen: message,
    cause:
      "Rules of policy routing may send packets with Viaduct's marks another way, and could not be read.",
    remedy: 'Look on the node: ip -4 rule, ip -6 rule.',
  }
}

/** One verdict for the rules after the first ones. */
function moreRules(count: number, what: string): readonly Verdict[] {
  if (count <= mostRules) return []
  return [
    {
      status: 'warning',
      seen: `${count - mostRules} more rules ${what}`,
      cause: "Viaduct and the other programs take each other's marks for their own.",
      remedy: otherBits,
    },
  ]
}

function hex(bits: number): string {
  return `0x${(bits >>> 0).toString(16)}`
}

function ownBits({ config, modes: { chosen = '' } }: Examined): number {
  const bit = chosen === 'nftables' ? config.nftables.masqueradeBit : config.iptables.masqueradeBit
  const marks = chosen.startsWith('ipvs') ? config.ipvs.markMask : 0
  return ((2 ** bit) | marks | dropMark) >>> 0
}

/**
 * Chains of kubelet, kube-proxy and Viaduct begin with KUBE-; built-in chains hold jumps to them. Those of flannel leave packets with
 * kube-proxy's mark alone on purpose (flannel's pkg/trafficmngr).
 */
function isForeign({ table, chain }: ChainPlace): boolean {
  const isOfFlannel = chain === 'FLANNEL-POSTRTG' || table === 'flannel-ipv4' || table === 'flannel-ipv6'
  return !isOwnTable(table) && !chain.startsWith('KUBE-') && !isOfFlannel
}

/** A node may have many chains that are alike. */
const mostChains = 8

const translatedOnce =
  'The kernel translates a connection once: what this chain translates never reaches a Service.'

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
