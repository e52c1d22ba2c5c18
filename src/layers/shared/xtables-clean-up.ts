// Clean-up of iptables mode, ours or kube-proxy's: for --cleanup, and after another mode has taken over.
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { XtFlavour, XtTableName, Xtables, XtKeptChain } from '../../kernel/index.js'
import { type ChainNames, type CleanUpOutcome, logFamily } from '../../engine/index.js'

interface XtablesAccess {
  xtables(family: IpFamily, table: XtTableName, flavour: XtFlavour): Xtables
  activeTables(family: IpFamily, flavour: XtFlavour): Promise<readonly XtTableName[]>
}

const families = ['ipv4', 'ipv6'] as const

/**
 * Removes these chains, and the jumps to them from the kernel's chains, from every table of these flavours that exists except raw, even
 * after a failure of another table. The chains that an open mode of the same kernel desires stay. It creates no table, and removes
 * neither tables nor the kernel's chains. Text: `removed 12 chains from IPv4 nat, 4 chains from IPv4 filter of nf_tables`.
 */
export async function cleanUpXtables(
  kernel: XtablesAccess,
  chains: ChainNames,
  flavours: readonly XtFlavour[],
): Promise<CleanUpOutcome> {
  const removed: string[] = []
  const failures: string[] = []
  for (const flavour of flavours)
    for (const family of families) {
      const tables = await orRefusal(() => kernel.activeTables(family, flavour))
      if (tables instanceof KernelError) {
        failures.push(tables.message)
        continue
      }
      for (const table of tables) {
        const cleaned = await cleanTable(kernel.xtables(family, table, flavour), chains[table] ?? [])
        const place = `${logFamily(family)} ${table}${flavour === 'nft' ? ' of nf_tables' : ''}`
        if (cleaned.count > 0) removed.push(`${cleaned.count} chains from ${place}`)
        failures.push(...cleaned.failures)
      }
    }
  const hasRemoved = removed.length > 0
  return { text: `removed ${hasRemoved ? removed.join(', ') : 'no chains'}`, hasRemoved, failures }
}

/** The number of removed chains, and one sentence on each chain that is left or on the table's failure. */
interface CleanedTable {
  readonly count: number
  readonly failures: readonly string[]
}

async function cleanTable(xtables: Xtables, prune: readonly string[]): Promise<CleanedTable> {
  if (prune.length === 0) return { count: 0, failures: [] }
  const cleaned = await orRefusal(async () => {
    const before = await xtables.chains()
    const { kept } = await xtables.apply([], { prune })
    const after = new Set((await xtables.chains()).map(({ chain }) => chain))
    return {
      count: before.filter(({ chain }) => !after.has(chain)).length,
      failures: kept.map((chain) => describeKept(xtables, chain)),
    }
  })
  return cleaned instanceof KernelError ? { count: 0, failures: [cleaned.message] } : cleaned
}

/** Describes a chain that could not be removed: `IPv4 table nat: chain KUBE-SVC-A stays, empty, as chain MINE jumps to it`. */
export function describeKept(
  { family, table }: Pick<Xtables, 'family' | 'table'>,
  { chain, by }: XtKeptChain,
): string {
  const holder = by === undefined ? 'an element of a map' : `chain ${by}`
  return `${logFamily(family)} table ${table}: chain ${chain} stays, empty, as ${holder} jumps to it`
}
