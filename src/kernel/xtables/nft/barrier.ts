import type { NfVerdict } from '../../nftables/data.js'
import type { NfExpression } from '../../nftables/expressions.js'
import type { NfHookChain, Nftables } from '../../nftables/nftables.js'
import { type XtBarrier, type XtHookPlace, XtState } from '../xtables.js'
import { decodeXtRule } from './decode.js'

/** `Kernel.findBarrier` of the table in nf_tables. */
export async function findNftBarrier(
  nftables: Pick<Nftables, 'chains' | 'rules'>,
  { family, table, hook }: XtHookPlace,
): Promise<XtBarrier | undefined> {
  const chains = await nftables.chains({ family, table })
  const base = chains.find(({ chain }) => chain === hook)?.hook
  if (base === undefined) return undefined
  const rules = await nftables.rules({ family, table, chain: hook })
  return barrierOf(
    rules.map(({ expressions }) => expressions),
    base.policy,
  )
}

/** A chain of nf_tables at hook forward that drops or rejects every packet which no rule before it accepts. */
export interface NfHookBarrier extends XtBarrier, Pick<NfHookChain, 'family' | 'table' | 'chain'> {}

/** `Kernel.forwardBarriers`. A chain that accepts connections by their status, as firewalld's does, is no barrier for Services. */
export async function findForwardBarriers(
  nftables: Pick<Nftables, 'forwardChains'>,
): Promise<readonly NfHookBarrier[]> {
  const chains = await nftables.forwardChains()
  return chains.flatMap(({ family, table, chain, policy, rules }) => {
    const barrier = barrierOf(rules, policy)
    const isPassed = barrier === undefined || rules.slice(0, barrier.rule).some(acceptsByStatus)
    return isPassed ? [] : [{ family, table, chain, ...barrier }]
  })
}

function barrierOf(
  rules: readonly (readonly NfExpression[])[],
  policy: 'accept' | 'drop' | undefined,
): XtBarrier | undefined {
  const rule = rules.findIndex(isBarrier)
  if (rule >= 0) return { rule, isPolicy: false }
  return policy === 'drop' ? { rule: rules.length, isPolicy: true } : undefined
}

/** Whether the rule accepts packets by the status of their connection: a rule of nft, or `-m conntrack --ctstate DNAT`. */
function acceptsByStatus(expressions: readonly NfExpression[]): boolean {
  const { state, target } = decodeXtRule({ expressions }, { family: 'ipv4', setOf: () => undefined }) ?? {}
  if (target?.kind === 'accept' && state !== undefined && state.isInverted !== true)
    return (state.bits & XtState.dnat) !== 0
  const readsStatus = expressions.some((each) => each.kind === 'ct' && each.key === 'status')
  return readsStatus && expressions.some((each) => verdictOf(each) === 'accept')
}

function verdictOf(expression: NfExpression): NfVerdict['code'] | undefined {
  return expression.kind === 'immediate' && 'verdict' in expression.data
    ? expression.data.verdict.code
    : undefined
}

/** Whether the rule drops or rejects every packet. Counters and comments match all. */
function isBarrier(expressions: readonly NfExpression[]): boolean {
  const [verdict, ...others] = expressions.filter(
    (each) => each.kind !== 'counter' && !(each.kind === 'match' && each.name === 'comment'),
  )
  if (verdict === undefined || others.length > 0) return false
  return (
    verdictOf(verdict) === 'drop' ||
    verdict.kind === 'reject' ||
    (verdict.kind === 'target' && verdict.name === 'REJECT')
  )
}
