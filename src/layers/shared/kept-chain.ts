import { logFamily } from '../../engine/index.js'
import type { XtKeptChain, Xtables } from '../../kernel/index.js'

/** Describes a chain that could not be removed: `IPv4 table nat: chain KUBE-SVC-A stays, empty, as chain MINE jumps to it`. */
export function describeKept(
  { family, table }: Pick<Xtables, 'family' | 'table'>,
  { chain, by }: XtKeptChain,
): string {
  const holder = by === undefined ? 'an element of a map' : `chain ${by}`
  return `${logFamily(family)} table ${table}: chain ${chain} stays, empty, as ${holder} jumps to it`
}
