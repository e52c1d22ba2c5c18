// Clean-up of the sets of ipvs mode, and of its chains in table mangle, where no other mode has any.
import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Ipset } from '../../kernel/index.js'
import { IpsetTable } from './tables/ipset-table.js'
import { mangleChains } from './compile/chains.js'
import { type XtablesAccess, describeKept } from '../shared/index.js'
import { dumpSets, ownedSetNames } from './sets.js'
import { isLeftProbe } from './set-types.js'

const families = ['ipv4', 'ipv6'] as const

/** What the kernel answers that has no sets at all: nfnetlink knows no such subsystem. */
const withoutSets: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT', 'ENOENT'])

/** The sets of a family, which say what is ours of what no binding marks. Empty where the kernel has no sets. Throws KernelError. */
export async function readOwnSets(ipset: Ipset, family: IpFamily): Promise<IpsetTable> {
  // Whatever the marks are: nothing is written.
  const table = new IpsetTable(family, 0)
  try {
    table.adopt(await dumpSets(ipset, table), { keepLeftovers: true })
  } catch (error) {
    if (!(error instanceof KernelError) || !withoutSets.has(error.code)) throw error
  }
  return table
}

/**
 * Removes the chains of ipvs mode from mangle, where iptables mode has none: what they refer to can go then. Resolves with a sentence on
 * each chain that stays, empty. Throws KernelError.
 */
export async function cleanUpMangle(kernel: XtablesAccess): Promise<readonly string[]> {
  const left: string[] = []
  for (const family of families) {
    if (!(await kernel.activeTables(family)).includes('mangle')) continue
    const xtables = kernel.xtables(family, 'mangle')
    const { kept } = await xtables.apply([], { prune: mangleChains })
    left.push(...kept.map((chain) => describeKept(xtables, chain)))
  }
  return left
}

/** Destroys every set of the mode, of kube-proxy's, and probes that a kill left; rules that refer to them have to be gone. Throws KernelError. */
export async function cleanUpSets(
  ipset: Ipset,
): Promise<{ readonly removed: number; readonly failures: readonly KernelError[] }> {
  const names = new Set(families.flatMap((family) => [...ownedSetNames(family)]))
  let present: readonly string[]
  try {
    const headers = await ipset.sets()
    present = headers.filter((set) => names.has(set.name) || isLeftProbe(set)).map(({ name }) => name)
  } catch (error) {
    if (error instanceof KernelError && withoutSets.has(error.code)) return { removed: 0, failures: [] }
    throw error
  }
  if (present.length === 0) return { removed: 0, failures: [] }
  const { failures } = await ipset.apply(present.map((name) => ({ op: 'destroy-set', name }) as const))
  return { removed: present.length - failures.length, failures: failures.map(({ error }) => error) }
}
