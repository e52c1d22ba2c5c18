// The desired kernel state of a route for people, as `iptables-save` prints it.
import type { IpFamily } from '../../address.js'
import { boundedLines } from '../../engine/index.js'
import { describeXtRule } from '../../kernel/index.js'
import type { Frontend } from '../../routing/index.js'
import type { DesiredRoute, IptablesTable } from '../../layers/xtables/index.js'

const tables: readonly IptablesTable[] = ['nat', 'filter']

/**
 * For each table its name, the chains of the route, and their rules. The rules of frontends appear in the dispatch chain. If that
 * chain has more than 16 frontends, the kernel may have such a rule in one of the chain's buckets instead.
 */
export function describeDesired(
  desired: DesiredRoute,
  family: IpFamily,
  isLost: (frontend: Frontend) => boolean = () => false,
): readonly string[] {
  const frontends = desired.frontends.filter(({ frontend }) => !isLost(frontend))
  return boundedLines(linesOf({ ...desired, frontends }, family))
}

function* linesOf(desired: DesiredRoute, family: IpFamily): Generator<string> {
  for (const table of tables) {
    const chains = desired.chains.filter((chain) => chain.table === table)
    const frontends = desired.frontends.filter(({ dispatch }) => dispatch.table === table)
    if (chains.length + frontends.length > 0) yield `*${table}`
    for (const { chain } of chains) yield `:${chain} - [0:0]`
    for (const { dispatch, rules } of frontends)
      for (const rule of rules) yield `-A ${dispatch.chain} ${describeXtRule(rule, family)}`
    for (const { chain, rules } of chains)
      for (const rule of rules) yield `-A ${chain} ${describeXtRule(rule, family)}`
  }
}
