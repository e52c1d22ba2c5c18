// Rules of other programs that meet Viaduct's.
import { KernelError, orRefusal } from '../errors.js'
import { filesWithTable, realFiles, savedTableConsequence, savedTableRemedy } from '../host/index.js'
import { type ChainPlace, describeChainPlace, describePolicyRule, isOwnTable } from '../kernel/index.js'
import { type Check, type Examined, partProblemsOr, problemsOr, type Verdict } from './check.js'
import { natOrderCheck, natRulesCheck } from './nat-order.js'

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
  natOrderCheck,
  natRulesCheck,
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
