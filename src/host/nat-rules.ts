// Rules of other programs in table nat that decide about a packet themselves: they translate its destination, or end its way.
import type { IpFamily } from '../address.js'
import { describeChainPlace, type FirewallChain, type FirewallRule, type Kernel } from '../kernel/index.js'

/** A rule of table nat. */
export interface NatRule {
  /** `rule 1 of chain PREROUTING of table ip nat in nf_tables ("-d 10.96.0.10 -j ACCEPT")`. */
  readonly text: string
  /** It may translate destinations; false: it only ends the way through the base chain. */
  readonly mayTranslate: boolean
}

/** Chains of kubelet, kube-proxy and Viaduct. Their rules are no decisions of another program. */
const kubePrefix = 'KUBE-'

/**
 * The rules that decide about packets in the base chain and in the chains to which it jumps, in their order. `until`: only those before the
 * base chain's jump to this chain, and none if there is no such jump. A verdict map counts, as it may lead to any chain. Throws KernelError.
 */
export async function decidingRules(
  base: FirewallChain,
  chains: readonly FirewallChain[],
  until?: string,
): Promise<readonly NatRule[]> {
  const all = await base.rules()
  const end = until === undefined ? all.length : all.findIndex(({ verdict }) => isJumpTo(verdict, until))
  const search = new Search(chains)
  await search.through(base, { rules: all.slice(0, Math.max(0, end)), isBase: true })
  return search.found
}

function isJumpTo(verdict: FirewallRule['verdict'], chain: string): boolean {
  return typeof verdict === 'object' && verdict.chain === chain
}

/**
 * The rules that decide about packets in the shared table nat of nf_tables, before the jumps to KUBE-SERVICES. Each once. Throws
 * KernelError.
 */
export async function rulesBeforeServices(
  kernel: Pick<Kernel, 'firewall'>,
  family: IpFamily,
): Promise<readonly NatRule[]> {
  const scope = { isLeftOut: (table: string) => table !== 'nat', hasLegacyNat: false }
  const chains = (await kernel.firewall(family, scope)).filter(
    (chain) => chain.flavour === 'nft' && chain.family === family,
  )
  const found = new Map<string, NatRule>()
  for (const chain of chains)
    if (chain.chain === 'PREROUTING' || chain.chain === 'OUTPUT')
      for (const rule of await decidingRules(chain, chains, 'KUBE-SERVICES')) found.set(rule.text, rule)
  return [...found.values()]
}

class Search {
  readonly found: NatRule[] = []
  readonly #chains: readonly FirewallChain[]
  readonly #seen = new Set<FirewallChain>()

  constructor(chains: readonly FirewallChain[]) {
    this.#chains = chains
  }

  async through(
    chain: FirewallChain,
    { rules, isBase }: { readonly rules: readonly FirewallRule[]; readonly isBase: boolean },
  ): Promise<void> {
    this.#seen.add(chain)
    for (const [index, rule] of rules.entries()) {
      const { verdict, isTranslating = false } = rule
      if (typeof verdict === 'object') {
        await this.#jump(chain, verdict.chain)
        // A packet that comes back from there has passed the base chain.
        if (verdict.isGoto && isBase) this.found.push(natRule(chain, index, rule))
      } else if (isTranslating || verdict === 'unknown' || ends(verdict, isBase))
        this.found.push(natRule(chain, index, rule))
    }
  }

  async #jump(from: FirewallChain, name: string): Promise<void> {
    const target = this.#chains.find(
      (each) =>
        each.chain === name &&
        each.table === from.table &&
        each.family === from.family &&
        each.flavour === from.flavour,
    )
    if (target === undefined || this.#seen.has(target) || name.startsWith(kubePrefix)) return
    await this.through(target, { rules: await target.rules(), isBase: false })
  }
}

function ends(verdict: FirewallRule['verdict'], isBase: boolean): boolean {
  return (
    verdict === 'accept' || verdict === 'drop' || verdict === 'reject' || (verdict === 'return' && isBase)
  )
}

function natRule(
  chain: FirewallChain,
  index: number,
  { text, verdict, isTranslating }: FirewallRule,
): NatRule {
  return {
    text: `rule ${index + 1} of ${describeChainPlace(chain)} ("${text}")`,
    mayTranslate: isTranslating === true || verdict === 'unknown',
  }
}
