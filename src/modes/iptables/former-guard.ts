// The guard of loopback addresses in a flavour of x_tables that the node no longer uses: KUBE-FIREWALL of an earlier run, or of kubelet
// before it changed to the other flavour. Nothing tells the two apart, and neither is of use: kubelet keeps its guard in one flavour.
import { KernelError, orRefusal } from '../../errors.js'
import type { CleanUpOutcome, ModeKernel } from '../../engine/index.js'
import { kubeletSigns, otherFlavour, placeName } from '../../host/index.js'
import { describeXtRule, type XtFlavour, type XtListing } from '../../kernel/index.js'
import { chainNames } from '../../layers/xtables/index.js'
import { localhostGuard } from './compile/skeleton.js'

const place = { family: 'ipv4', table: 'filter' } as const
const chain = chainNames.firewall

/** The rules of the guard by their chain, as `Kernel.listTable` has them. */
const guard: ReadonlyMap<string, readonly string[]> = new Map(
  localhostGuard().flatMap((op) =>
    'rules' in op ? [[op.chain, op.rules.map((rule) => describeXtRule(rule, place.family))]] : [],
  ),
)

/**
 * Removes the guard and its jumps from each of these flavours in which they are of no use: kubelet's chains are in the other flavour
 * alone, where a guard is in force. A guard that differs from the one that Viaduct writes, or to which others jump, stays. Never throws
 * KernelError. NB: the check and the removal are two readings.
 */
export async function removeFormerGuards(
  kernel: ModeKernel,
  flavours: readonly XtFlavour[],
): Promise<CleanUpOutcome> {
  const removed: string[] = []
  const failures: string[] = []
  for (const flavour of flavours) {
    const isRemoved = await orRefusal(async () => await removeFormerGuard(kernel, flavour))
    if (isRemoved instanceof KernelError) failures.push(isRemoved.message)
    else if (isRemoved) removed.push(`${chain} from IPv4 filter in ${placeName(flavour)}`)
  }
  const text = removed.length === 0 ? '' : `removed ${removed.join(', ')}`
  return { text, hasRemoved: removed.length > 0, failures }
}

async function removeFormerGuard(kernel: ModeKernel, flavour: XtFlavour): Promise<boolean> {
  if (!(await hasChain(kernel, flavour))) return false
  const inUse = otherFlavour(flavour)
  const kubelet = await kubeletSigns(kernel)
  if (kubelet[flavour] !== undefined || kubelet[inUse] === undefined) return false
  if (!(await hasChain(kernel, inUse)) || !guards(await kernel.listTable(place, inUse))) return false
  if (!isGuardAlone(await kernel.listTable(place, flavour))) return false
  await kernel.xtables(place.family, place.table, flavour).apply([], { prune: [chain] })
  return true
}

/** Only of a table that exists: a request for another one would create it. */
async function hasChain(kernel: ModeKernel, flavour: XtFlavour): Promise<boolean> {
  if (!(await kernel.activeTables(place.family, flavour)).includes(place.table)) return false
  const chains = await kernel.xtables(place.family, place.table, flavour).chains()
  return chains.some((each) => each.chain === chain)
}

/** Whether the guard is in force there, with other rules or without. */
function guards(listing: XtListing): boolean {
  return [...guard].every(([name, rules]) => {
    const present = listing.find((each) => each.chain === name)?.rules ?? []
    return rules.every((rule) => present.includes(rule))
  })
}

/** Whether the chain has the rule of the guard alone, and the jumps of the guard alone lead to it. */
function isGuardAlone(listing: XtListing): boolean {
  return listing.every(({ chain: name, rules }) => {
    const own = name === chain ? rules : rules.filter((rule) => rule.includes(chain))
    return own.join('\n') === (guard.get(name) ?? []).join('\n')
  })
}
