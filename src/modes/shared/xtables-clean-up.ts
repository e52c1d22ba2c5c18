// Clean-up of iptables mode, ours or kube-proxy's: for --cleanup, and after another mode has taken over.
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { NftChains, XtTableName, Xtables } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import { type ChainNames, logFamily } from '../../engine/index.js'
import { describeKept } from './kept-chain.js'

export interface XtablesAccess {
  xtables(family: IpFamily, table: XtTableName): Xtables
  activeTables(family: IpFamily): Promise<readonly XtTableName[]>
}

/** The result of the clean-up of one table. */
export interface CleanedTable {
  readonly family: IpFamily
  readonly table: XtTableName
  /** Chains that were removed. */
  readonly removed: readonly string[]
  /** One sentence on each chain that is left, with the reason; empty: none is left. */
  readonly failures: readonly string[]
}

const families = ['ipv4', 'ipv6'] as const

/**
 * Removes the chains of iptables mode and of kube-proxy's ipvs mode, and the jumps to them, from every table that exists. It
 * creates no table.
 */
export async function cleanUpXtables(
  kernel: XtablesAccess,
  chains: ChainNames,
): Promise<readonly CleanedTable[]> {
  const cleaned: CleanedTable[] = []
  for (const family of families) {
    for (const table of await kernel.activeTables(family))
      if (table !== 'raw') cleaned.push(await cleanTable(kernel.xtables(family, table), chains))
  }
  return cleaned
}

async function cleanTable(xtables: Xtables, chains: ChainNames): Promise<CleanedTable> {
  const { family, table } = xtables
  const cleaned = await orRefusal(async () => {
    const before = await xtables.chains()
    const { kept } = await xtables.apply([], { prune: chains[table] ?? [] })
    const after = new Set((await xtables.chains()).map(({ chain }) => chain))
    const removed = before.map(({ chain }) => chain).filter((chain) => !after.has(chain))
    return { removed, failures: kept.map((chain) => describeKept(xtables, chain)) }
  })
  if (cleaned instanceof KernelError) return { family, table, removed: [], failures: [cleaned.message] }
  return { family, table, ...cleaned }
}

/** `removed 12 chains from IPv4 nat, 4 chains from IPv4 filter`. */
export function describeCleanedTables(cleaned: readonly CleanedTable[]): string {
  const removed = cleaned
    .filter(({ removed: chains }) => chains.length > 0)
    .map(({ family, table, removed: chains }) => `${chains.length} chains from ${logFamily(family)} ${table}`)
  return `removed ${removed.length === 0 ? 'no chains' : removed.join(', ')}`
}

/**
 * One sentence on the chains that a kube-proxy has in the tables of iptables-nft, which differ from the legacy ones; undefined:
 * none. Viaduct does not remove them: other programs have rules there, and only iptables-nft can tell them apart.
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

/** Logs that sentence once, at the start of a mode: the rules of iptables-nft stay in force beside ours in every mode. */
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
