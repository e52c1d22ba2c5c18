import { constants } from 'node:os'
import { KernelError } from '../../errors.js'
import { describeSet, describeTable } from '../nftables/describe.js'
import type { NftChains } from '../nftables/nft-chains.js'
import type { NfOutcome, NfTransaction, Nftables } from '../nftables/nftables.js'
import { QuietWatch, withMembers } from './take-batch.js'
import type { TakeTransaction } from './transaction.js'

const { ENOENT } = constants.errno

/** The first handle of a rule that only a dry run has: greater than every handle of the kernel that it meets. */
const firstHandle = 1_000_000_000

export interface DryRunNftOptions {
  /** False: nf_tables is not loaded, and has no tables. */
  readonly isLoaded: boolean
  /** Whether the kernel may check a transaction. It may not if it could load modules for the check; then no error is found. */
  readonly canProbe: boolean
  readonly take: TakeTransaction
}

/** nf_tables in a dry run, and the names of its chains. */
export function dryRunNftables(
  real: { readonly nftables: Nftables; readonly nftChains: NftChains },
  { isLoaded, canProbe, take }: DryRunNftOptions,
): { readonly nftables: Nftables; readonly nftChains: NftChains } {
  const reads = isLoaded ? real.nftables : withMembers(real.nftables, unloaded)
  let nextHandle = firstHandle
  const discarded = new Set<string>()
  const nftables = withMembers(reads, {
    apply: async (transaction, { isDryRun = false } = {}): Promise<NfOutcome> => {
      if (isDryRun && canProbe) return await reads.apply(transaction, { isDryRun })
      if (isDryRun) return { state: 'applied', failures: [], handles: new Map() }
      take({ part: 'nftables', ops: transaction })
      const handles = new Map<number, number>()
      for (const index of rulesWithHandle(transaction)) handles.set(index, nextHandle++)
      return { state: 'applied', generation: await reads.generation(), failures: [], handles }
    },
    watch: () => new QuietWatch(),
  })
  const nftChains = withMembers(real.nftChains, {
    list: async (family) => (await nftables.chains({ family })).map(({ table, chain }) => ({ table, chain })),
    discardTable: async (family, table) => {
      const key = { family, table }
      const isThere = (await reads.tables(family)).some((state) => state.table === table)
      if (!isThere || discarded.has(describeTable(key))) return false
      discarded.add(describeTable(key))
      take({ part: 'nftables', ops: [{ op: 'delete-table', table: key }] })
      return true
    },
    // Absent tables are shown empty, so that no module is needed.
    loadXtables: async () => {},
  })
  return { nftables, nftChains }
}

function* rulesWithHandle(transaction: NfTransaction): Iterable<number> {
  for (const [index, op] of transaction.entries()) if ('wantsHandle' in op && op.wantsHandle) yield index
}

const nothing = async (): Promise<readonly never[]> => []

const unloaded: Partial<Nftables> = {
  generation: async () => 1,
  tables: nothing,
  chains: nothing,
  rules: nothing,
  forwardChains: nothing,
  tablesWithNat: nothing,
  counters: nothing,
  sets: async ({ family, table }) => {
    if (table === undefined) return []
    throw absent('dump nf_tables sets', describeTable({ family, table }))
  },
  elements: async (set) => {
    throw absent('dump nf_tables elements', describeSet(set))
  },
  elementsOnce: async (set) => {
    throw absent('dump nf_tables elements', describeSet(set))
  },
}

function absent(operation: string, object: string): KernelError {
  return new KernelError({ errno: ENOENT, subsystem: 'nftables', operation, object })
}
