import type { NfExpression } from '../../nftables/expressions.js'
import type { Nftables } from '../../nftables/nftables.js'
import type { XtBarrier, XtHookPlace } from '../xtables.js'

/** `Kernel.findBarrier` of the table in nf_tables. */
export async function findNftBarrier(
  nftables: Pick<Nftables, 'chains' | 'rules'>,
  { family, table, hook }: XtHookPlace,
): Promise<XtBarrier | undefined> {
  const chains = await nftables.chains({ family, table })
  const base = chains.find(({ chain }) => chain === hook)?.hook
  if (base === undefined) return undefined
  const rules = await nftables.rules({ family, table, chain: hook })
  const rule = rules.findIndex(({ expressions }) => isBarrier(expressions))
  if (rule >= 0) return { rule, isPolicy: false }
  return base.policy === 'drop' ? { rule: rules.length, isPolicy: true } : undefined
}

/** Whether the rule drops or rejects every packet. Counters and comments match all. */
function isBarrier(expressions: readonly NfExpression[]): boolean {
  const [verdict, ...others] = expressions.filter(
    (each) => each.kind !== 'counter' && !(each.kind === 'match' && each.name === 'comment'),
  )
  if (verdict === undefined || others.length > 0) return false
  if (verdict.kind === 'immediate') return 'verdict' in verdict.data && verdict.data.verdict.code === 'drop'
  return verdict.kind === 'reject' || (verdict.kind === 'target' && verdict.name === 'REJECT')
}
