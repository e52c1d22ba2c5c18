// The flavour of x_tables that the other programs of this node use. Nothing is changed, and no table is created.
import type { IpFamily } from '../address.js'
import type { IptablesFlavour } from '../config/index.js'
import { KernelError, orRefusal } from '../errors.js'
import type { Kernel, Nftables, XtFlavour, XtTableName } from '../kernel/index.js'
import { isWithoutXtables, isWithoutNftCompat, requireNftCompat } from './families.js'

/** The parts of the kernel that show a flavour. */
export type FlavourKernel = Pick<Kernel, 'xtables' | 'activeTables' | 'nftChains'> & {
  readonly nftables: Pick<Nftables, 'apply'>
}

/** Chains that kubelet makes in table mangle, with the iptables of the node, for other programs to find the flavour. */
const hints: ReadonlySet<string> = new Set(['KUBE-IPTABLES-HINT', 'KUBE-KUBELET-CANARY'])
/** The chain in table nat of every kube-proxy in iptables or ipvs mode, and of Viaduct. */
const services: ReadonlySet<string> = new Set(['KUBE-SERVICES'])

const families = ['ipv4', 'ipv6'] as const
const familyNames: Readonly<Record<IpFamily, string>> = { ipv4: 'IPv4', ipv6: 'IPv6' }
const placeNames: Readonly<Record<XtFlavour, string>> = { nft: 'nf_tables', legacy: 'the legacy tables' }

/** The first chain that shows a flavour, such as `IPv4 mangle KUBE-IPTABLES-HINT in nf_tables`; undefined: none. */
type FlavourSigns = Readonly<Record<XtFlavour, string | undefined>>

/** The flavour to use, and why, as one clause. */
export interface ChosenFlavour {
  readonly flavour: XtFlavour
  readonly reason: string
}

/**
 * Chooses the flavour by the setting; then by kubelet's chains, as the iptables-wrappers of the Kubernetes images do; then by
 * KUBE-SERVICES; then nft if the kernel has nft_compat. If kubelet's chains are in both flavours, nft. Throws KernelError.
 */
export async function chooseFlavour(kernel: FlavourKernel, setting: IptablesFlavour): Promise<ChosenFlavour> {
  if (setting !== 'auto') return { flavour: setting, reason: 'the setting iptablesFlavour' }
  const kubelet = await kubeletSigns(kernel)
  for (const flavour of ['nft', 'legacy'] as const) {
    const sign = kubelet[flavour]
    if (sign !== undefined) return { flavour, reason: `kubelet made ${sign}` }
  }
  const nft = await servicesSign(kernel, 'nft')
  const legacy = await servicesSign(kernel, 'legacy')
  if (nft !== undefined && legacy === undefined) return { flavour: 'nft', reason: `there is ${nft}` }
  if (legacy !== undefined && nft === undefined) return { flavour: 'legacy', reason: `there is ${legacy}` }
  const lack = await orRefusal(async () => await requireNftCompat(kernel.nftables), isWithoutNftCompat)
  return lack instanceof KernelError
    ? { flavour: 'legacy', reason: 'no other program shows one, and the kernel has no nft_compat' }
    : { flavour: 'nft', reason: 'no other program shows one, and the kernel has nft_compat' }
}

/** The flavours that kubelet's chains show. Throws KernelError. */
export async function kubeletSigns(kernel: FlavourKernel): Promise<FlavourSigns> {
  const wanted = { table: 'mangle', names: hints } as const
  const nft = await findSign(kernel, 'nft', wanted)
  const legacy = await findSign(kernel, 'legacy', wanted)
  return { nft, legacy }
}

/** The first chain KUBE-SERVICES in nat of the flavour; undefined: there is none. Throws KernelError. */
export async function servicesSign(kernel: FlavourKernel, flavour: XtFlavour): Promise<string | undefined> {
  return await findSign(kernel, flavour, { table: 'nat', names: services })
}

/**
 * Whether the rules of iptables mode's Services are in the flavour, by kube-proxy or Viaduct: chains of Services, or, in nf_tables, the
 * table `kube-proxy` beside KUBE-SERVICES. Throws KernelError.
 */
export async function standingServices(kernel: FlavourKernel, flavour: XtFlavour): Promise<boolean> {
  for (const family of families) {
    const chains =
      flavour === 'nft'
        ? (await kernel.nftChains.list(family)).map(({ table, chain }) => `${table} ${chain}`)
        : (await legacyChains(kernel, family, 'nat')).map((chain) => `nat ${chain}`)
    if (chains.some((each) => each.startsWith('nat KUBE-SVC-'))) return true
    if (chains.includes('nat KUBE-SERVICES') && chains.some((each) => each.startsWith('kube-proxy ')))
      return true
  }
  return false
}

/**
 * Returns one sentence if kubelet's chains contradict the flavour in use; undefined: they do not. `kubelet`: the result of
 * `kubeletSigns`.
 */
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

export function familyName(family: IpFamily): string {
  return familyNames[family]
}

/** `nf_tables`, `the legacy tables`. */
export function placeName(flavour: XtFlavour): string {
  return placeNames[flavour]
}

/** The first of these chains in the flavour. IPv4 comes first. */
async function findSign(
  kernel: FlavourKernel,
  flavour: XtFlavour,
  { table, names }: { readonly table: XtTableName; readonly names: ReadonlySet<string> },
): Promise<string | undefined> {
  const list = flavour === 'nft' ? nftChains : legacyChains
  for (const family of families) {
    const chain = (await list(kernel, family, table)).find((each) => names.has(each))
    if (chain !== undefined) return `${familyNames[family]} ${table} ${chain} in ${placeNames[flavour]}`
  }
  return undefined
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
