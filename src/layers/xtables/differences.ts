import type { Xtables } from '../../kernel/index.js'
import type { DesiredRoute, IptablesTable } from './desired.js'

const tables: readonly IptablesTable[] = ['nat', 'filter']

/** The start of the names of chains and buckets that routes own. All other chains serve every route. */
const ofRoutes = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/u

/**
 * The chains of a route, and the mode's own chains, that are not as desired, a sentence each. x_tables cannot be read in part: this reads
 * both tables. Throws KernelError.
 */
export async function differences(
  { chains }: Pick<DesiredRoute, 'chains'>,
  xtables: Readonly<Record<IptablesTable, Pick<Xtables, 'compare'>>>,
): Promise<readonly string[]> {
  const found = await Promise.all(
    tables.map(async (table) => {
      const own = new Set(chains.filter((chain) => chain.table === table).map(({ chain }) => chain))
      const isConcerned = (name: string): boolean => own.has(name) || !ofRoutes.test(name)
      const { missing, changed } = await xtables[table].compare()
      return [
        ...missing.filter(isConcerned).map((name) => `${name} of table ${table} is missing`),
        ...changed.filter(isConcerned).map((name) => `${name} of table ${table} has other rules`),
      ]
    }),
  )
  return found.flat()
}
