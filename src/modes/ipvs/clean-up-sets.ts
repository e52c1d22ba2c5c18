// Clean-up of the sets of ipvs mode.
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Ipset } from '../../kernel/index.js'
import {
  destroySets,
  dumpSets,
  IpsetTable,
  isLeftProbe,
  ownedSetNames,
  type SetKernel,
} from '../../layers/ipvs/index.js'

const families = ['ipv4', 'ipv6'] as const

/** Error codes of a kernel without sets: nfnetlink does not know the subsystem. */
const withoutSets: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT', 'ENOENT'])

/** Resolves with undefined if the kernel has no sets. */
async function unlessWithoutSets<T>(ask: () => Promise<T>): Promise<T | undefined> {
  const answer = await orRefusal(ask, ({ code }) => withoutSets.has(code))
  return answer instanceof KernelError ? undefined : answer
}

/**
 * The sets of a family, which prove the ownership of objects that no binding marks. Empty if the kernel has no sets. Throws
 * KernelError.
 */
export async function readOwnSets(ipset: Ipset, family: IpFamily): Promise<IpsetTable> {
  // The mark has no effect here, as nothing is written.
  const table = new IpsetTable(family, 0)
  const dumped = await unlessWithoutSets(() => dumpSets(ipset, table))
  if (dumped !== undefined) table.adopt(dumped, { keepLeftovers: true })
  return table
}

/**
 * Destroys every set of the mode and of kube-proxy's, and probes that a killed process left. No rule may refer to them any more.
 * Throws KernelError.
 */
export async function cleanUpSets(
  kernel: SetKernel,
): Promise<{ readonly removed: number; readonly failures: readonly KernelError[] }> {
  const names = new Set(families.flatMap((family) => [...ownedSetNames(family)]))
  const headers = (await unlessWithoutSets(() => kernel.ipset.sets())) ?? []
  const present = headers.filter((set) => names.has(set.name) || isLeftProbe(set)).map(({ name }) => name)
  if (present.length === 0) return { removed: 0, failures: [] }
  const failures = await destroySets(kernel, present)
  return { removed: present.length - failures.length, failures }
}
