// Clean-up of iptables mode, ours or kube-proxy's: for --cleanup, and after another mode has taken over.
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { NftChains, XtTableName, Xtables } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import { type ChainNames, type CleanUpOutcome, logFamily } from '../../engine/index.js'
import { describeKept } from './kept-chain.js'

interface XtablesAccess {
  xtables(family: IpFamily, table: XtTableName): Xtables
  activeTables(family: IpFamily): Promise<readonly XtTableName[]>
}

const families = ['ipv4', 'ipv6'] as const

/**
 * Removes these chains, and the jumps to them from the kernel's chains, from every table that exists except raw, even after a failure
 * of another table. It creates no table. Text: `removed 12 chains from IPv4 nat, 4 chains from IPv4 filter`.
 */
export async function cleanUpXtables(kernel: XtablesAccess, chains: ChainNames): Promise<CleanUpOutcome> {
  const removed: string[] = []
  const failures: string[] = []
  for (const family of families) {
    const tables = await orRefusal(() => kernel.activeTables(family))
    if (tables instanceof KernelError) {
      failures.push(tables.message)
      continue
    }
    for (const table of tables) {
      const cleaned = await cleanTable(kernel.xtables(family, table), chains[table] ?? [])
      if (cleaned.count > 0) removed.push(`${cleaned.count} chains from ${logFamily(family)} ${table}`)
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

/**
 * One sentence on the chains of kube-proxy in the tables of iptables-nft, which exist in addition to the legacy ones; undefined:
 * there are none. Viaduct does not remove them: other programs have rules there, and only iptables-nft can tell them apart. Throws
 * KernelError.
 */
export async function describeNftLeftovers(
  nftChains: NftChains,
  chains: ChainNames,
): Promise<string | undefined> {
  const found: string[] = []
  for (const family of families) {
    for (const { table, chain } of await nftChains.list(family)) {
      const isIptablesNft = (table === 'nat' || table === 'filter') && isOneOf(chain, chains[table] ?? [])
      if (isIptablesNft) found.push(`${logFamily(family)} ${table} ${chain}`)
    }
  }
  if (found.length === 0) return undefined
  const names =
    found.length > 5 ? `${found.slice(0, 5).join(', ')} and ${found.length - 5} more` : found.join(', ')
  return (
    `nf_tables has chains of a kube-proxy (${names}): stop it, and remove them with "kube-proxy --cleanup" of the image that ` +
    'made them'
  )
}

/** Logs the sentence of `describeNftLeftovers`, at the start of a mode: such rules stay in force together with ours, in every mode. */
export async function warnOfNft(nftChains: NftChains, chains: ChainNames, log: Log): Promise<void> {
  const leftovers = await orRefusal(() => describeNftLeftovers(nftChains, chains))
  if (leftovers instanceof KernelError)
    log.warn('Chains of nf_tables could not be listed', { err: leftovers })
  else if (leftovers !== undefined) log.warn(leftovers)
}

function isOneOf(chain: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? chain.startsWith(pattern.slice(0, -1)) : chain === pattern,
  )
}
