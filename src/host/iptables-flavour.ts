// The flavour of x_tables that the other programs of this node use. Nothing is changed, and no table is created.
import type { IpFamily } from '../address.js'
import type { IptablesFlavour } from '../config/index.js'
import { KernelError, orRefusal } from '../errors.js'
import type { Kernel, XtFlavour, XtTableName } from '../kernel/index.js'
import { isWithoutXtables } from './find-xtables.js'
import { isWithoutNftCompat, requireNftCompat } from './nft-compat.js'

type FlavourKernel = Pick<Kernel, 'xtables' | 'activeTables' | 'nftChains' | 'nftables'>

/** Chains that kubelet makes in table mangle, with the iptables of the node, for other programs to find the flavour. */
const hints: ReadonlySet<string> = new Set(['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'])
/** The chain in table nat of every kube-proxy in iptables or ipvs mode, and of Viaduct. */
const services: ReadonlySet<string> = new Set(['KUBE-SERVICES'])

const families = [
  { family: 'ipv4', name: 'IPv4' },
  { family: 'ipv6', name: 'IPv6' },
] as const

const placeNames: Readonly<Record<XtFlavour, string>> = { nft: 'nf_tables', legacy: 'the legacy tables' }

/** The first chain that shows a flavour, such as `IPv4 mangle KUBE-IPTABLES-HINT in nf_tables`; absent: none. */
export type FlavourSigns = Readonly<Partial<Record<XtFlavour, string>>>

/** The flavour to use, and why, as one clause. */
export interface ChosenFlavour {
  readonly flavour: XtFlavour
  readonly reason: string
}

/**
 * Chooses the flavour by the setting; then by kubelet's chains, as the iptables-wrappers of the Kubernetes images do; then by
 * KUBE-SERVICES; then nft if the kernel has nft_compat. If kubelet's chains are in both flavours, nft. Throws KernelError.
 */
export async function chooseFlavour(
  kernel: FlavourKernel,
  setting: IptablesFlavour,
  kubelet: FlavourSigns,
): Promise<ChosenFlavour> {
  if (setting !== 'auto') return { flavour: setting, reason: 'the setting iptablesFlavour' }
  for (const flavour of ['nft', 'legacy'] as const) {
    const sign = kubelet[flavour]
    if (sign !== undefined) return { flavour, reason: `kubelet made ${sign}` }
  }
  const former = await findSigns(kernel, 'nat', services)
  if (former.nft !== undefined && former.legacy === undefined)
    return { flavour: 'nft', reason: `there is ${former.nft}` }
  if (former.legacy !== undefined && former.nft === undefined)
    return { flavour: 'legacy', reason: `there is ${former.legacy}` }
  const lack = await orRefusal(async () => await requireNftCompat(kernel.nftables), isWithoutNftCompat)
  return lack instanceof KernelError
    ? { flavour: 'legacy', reason: 'no other program shows one, and the kernel has no nft_compat' }
    : { flavour: 'nft', reason: 'no other program shows one, and the kernel has nft_compat' }
}

/** The flavours that kubelet's chains show. Throws KernelError. */
export async function kubeletSigns(kernel: FlavourKernel): Promise<FlavourSigns> {
  return await findSigns(kernel, 'mangle', hints)
}

/** Returns one sentence if kubelet's chains contradict the flavour in use; undefined: they do not. `kubelet`: the result of `kubeletSigns`. */
export function flavourContradiction(inUse: XtFlavour, kubelet: FlavourSigns): string | undefined {
  const other = otherFlavour(inUse)
  const sign = kubelet[other]
  if (sign === undefined) return undefined
  const own = kubelet[inUse]
  if (own === undefined)
    return (
      `Viaduct uses the flavour ${inUse}, but kubelet made ${sign}: use --iptables-flavour=${other}, ` +
      'or =auto, and restart the agent'
    )
  return (
    `kubelet made ${own} and ${sign}: Viaduct uses the flavour ${inUse}; ` +
    'delete those chains in the flavour that the iptables of this node does not use'
  )
}

export function otherFlavour(flavour: XtFlavour): XtFlavour {
  return flavour === 'nft' ? 'legacy' : 'nft'
}

/** The first of these chains of the table in each flavour. IPv4 comes first. */
async function findSigns(
  kernel: FlavourKernel,
  table: XtTableName,
  names: ReadonlySet<string>,
): Promise<FlavourSigns> {
  const signs: Partial<Record<XtFlavour, string>> = {}
  for (const { family, name } of families) {
    const present = {
      nft: await nftChains(kernel, family, table),
      legacy: await legacyChains(kernel, family, table),
    }
    for (const flavour of ['nft', 'legacy'] as const) {
      const chain = present[flavour].find((each) => names.has(each))
      if (chain !== undefined) signs[flavour] ??= `${name} ${table} ${chain} in ${placeNames[flavour]}`
    }
  }
  return signs
}

async function nftChains(
  { nftChains: list }: FlavourKernel,
  family: IpFamily,
  table: string,
): Promise<readonly string[]> {
  return (await list.list(family)).filter((each) => each.table === table).map(({ chain }) => chain)
}

/** Only of a table that exists: a request for another one would create it, with its hooks. */
async function legacyChains(
  kernel: FlavourKernel,
  family: IpFamily,
  table: XtTableName,
): Promise<readonly string[]> {
  if (!(await kernel.activeTables(family, 'legacy')).includes(table)) return []
  // The module may have gone since.
  const chains = await orRefusal(
    async () => await kernel.xtables(family, table, 'legacy').chains(),
    isWithoutXtables,
  )
  return chains instanceof KernelError ? [] : chains.map(({ chain }) => chain)
}
