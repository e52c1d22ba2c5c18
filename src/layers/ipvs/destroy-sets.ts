import { type KernelError, orRefusal } from '../../errors.js'
import { requireNftCompat } from '../../host/index.js'
import type { Ipset, Nftables } from '../../kernel/index.js'

/** The parts of the kernel that rules and sets are in. */
export interface SetKernel {
  readonly ipset: Ipset
  readonly nftables: Pick<Nftables, 'apply'>
}

/**
 * Destroys sets. Returns the refusals; EBUSY: a rule refers to the set. Throws KernelError if the sets cannot be changed at all.
 *
 * A rule that was deleted from nf_tables keeps its reference for some milliseconds: a worker of the kernel destroys it after a grace
 * period. A check of a rule with a match of x_tables waits for this worker (nft_compat_wait_for_destructors()), so that busy sets
 * are destroyed after such a check.
 */
export async function destroySets(
  { ipset, nftables }: SetKernel,
  names: readonly string[],
): Promise<readonly KernelError[]> {
  const first = await destroy(ipset, names)
  if (first.busy.length === 0) return first.errors
  // A kernel without nft_compat has no such rules.
  await orRefusal(async () => await requireNftCompat(nftables))
  const second = await destroy(ipset, first.busy)
  return [...first.errors.filter(isNotBusy), ...second.errors]
}

async function destroy(
  ipset: Ipset,
  names: readonly string[],
): Promise<{ readonly errors: readonly KernelError[]; readonly busy: readonly string[] }> {
  const { failures } = await ipset.apply(names.map((name) => ({ op: 'destroy-set', name }) as const))
  const busy = failures.flatMap(({ index, error }) => (isNotBusy(error) ? [] : (names[index] ?? [])))
  return { errors: failures.map(({ error }) => error), busy }
}

function isNotBusy({ code }: KernelError): boolean {
  return code !== 'EBUSY'
}
