import type { Nftables, NfRuleState } from '../../nftables/nftables.js'
import type { XtPlace } from '../encode.js'
import type { XtKeptChain } from '../xtables.js'
import { chainOf } from './decode.js'
import type { DesiredTable } from '../desired.js'

/** The part of a table that Viaduct reads: the names of all chains, and the rules of those that matter. */
export interface TableImage {
  /** All chains, base chains too, in the kernel's order. */
  readonly chains: ReadonlySet<string>
  /** Rules of base chains, of desired chains and of kept chains. */
  readonly rules: ReadonlyMap<string, readonly NfRuleState[]>
  /** Chains to remove. Their rules are not read. */
  readonly gone: ReadonlySet<string>
  readonly kept: readonly XtKeptChain[]
}

/**
 * Reads the table. The rules of foreign chains are read only if there are chains to remove, to find jumps to them. NB: the reads are
 * separate requests. The image is that of one moment only if the generation is the same before and after.
 */
export async function readTable(
  nftables: Nftables,
  place: XtPlace,
  desired: DesiredTable,
): Promise<TableImage> {
  const rules = new Map<string, readonly NfRuleState[]>()
  const read = async (chain: string): Promise<readonly NfRuleState[]> => {
    const found = await nftables.rules({ ...place, chain })
    rules.set(chain, found)
    return found
  }
  const listed = await nftables.chains(place)
  const chains = new Set(listed.map(({ chain }) => chain))
  const gone = new Set<string>()
  const shared = new Set<string>()
  const foreign: string[] = []
  for (const { chain, hook } of listed) {
    if (desired.chains.has(chain) || (hook !== undefined && desired.isHook(chain))) continue
    const fate = hook === undefined ? desired.fate(chain) : 'stays'
    if (fate === 'if-unused') shared.add(chain)
    if (fate === 'goes' || (fate === 'if-unused' && (await read(chain)).length === 0)) gone.add(chain)
    else foreign.push(chain)
  }
  const targets = gone.size === 0 ? [] : await findJumps(foreign, gone, read)
  const held = [...desired.held].filter(
    (name) => gone.has(name) && !targets.some(({ chain }) => chain === name),
  )
  const kept = [...targets, ...held.map((chain) => ({ chain }))]
  for (const { chain } of kept) gone.delete(chain)
  const emptied = kept.filter(({ chain }) => !shared.has(chain))
  for (const { chain } of emptied) await read(chain)
  const hasLeftovers = gone.size + emptied.length > 0
  for (const chain of chains) {
    const isHook = desired.isHook(chain) && (hasLeftovers || desired.hooks.has(chain))
    if (isHook || desired.chains.has(chain)) await read(chain)
  }
  return { chains, rules, gone, kept: emptied }
}

/** The targets to which foreign chains jump, each with the first such chain. */
async function findJumps(
  foreign: readonly string[],
  targets: ReadonlySet<string>,
  read: (chain: string) => Promise<readonly NfRuleState[]>,
): Promise<readonly XtKeptChain[]> {
  const found = new Map<string, string>()
  for (const by of foreign) {
    for (const { expressions } of await read(by)) {
      const chain = chainOf(expressions)
      if (chain !== undefined && targets.has(chain) && !found.has(chain)) found.set(chain, by)
    }
  }
  return [...found].map(([chain, by]) => ({ chain, by }))
}
