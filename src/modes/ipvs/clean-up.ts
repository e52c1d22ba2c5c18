// --cleanup: removes only objects that are provably ours (docs/adr/0005).
import { type Cidr, type IpAddress, type IpFamily, cidrContains } from '../../address.js'
import { KernelError, isNotFound, orRefusal } from '../../errors.js'
import type { BatchOutcome, IpvsOp, RouteOp, VirtualServerKey, Ipset } from '../../kernel/index.js'
import {
  type IpvsKernel,
  PackedDump,
  type SetKernel,
  destroySets,
  dumpSets,
  IpsetTable,
  isLeftProbe,
  ownedSetNames,
} from '../../layers/ipvs/index.js'
import { findDummyDevice, findLoopback, hostAddresses, PackedRoutes } from '../../layers/vips/index.js'
import { dummyDeviceName, machineAddresses } from '../../host/index.js'

/** The objects that a clean-up of ipvs mode removed, and its failures. */
interface CleanUpReport {
  readonly virtualServers: number
  readonly routes: number
  /** Number of addresses that were removed with the device. */
  readonly addresses: number
  readonly device: boolean
  readonly sets: number
  /** False: the kernel has no IP_VS, so there was nothing to remove from it. */
  readonly hasIpvs: boolean
  readonly failures: readonly KernelError[]
}

/** A report in the making. */
type Progress = { -readonly [K in keyof CleanUpReport]: CleanUpReport[K] } & {
  readonly failures: KernelError[]
}

/**
 * Removes the virtual servers that a binding of their address or a set proves to be ours, unless `excludeCidrs` contain them; then the
 * bindings, the dummy device and the sets. After a failure the remaining bindings and the sets stay, so that the clean-up can be
 * repeated. Throws KernelError when the kernel could not be read, if there is nothing else to report. Otherwise the report has that
 * error among its failures.
 */
export async function cleanUp(
  kernel: IpvsKernel & SetKernel,
  excludeCidrs: readonly Cidr[],
): Promise<CleanUpReport> {
  const progress: Progress = {
    virtualServers: 0,
    routes: 0,
    addresses: 0,
    device: false,
    sets: 0,
    hasIpvs: true,
    failures: [],
  }
  const error = await orRefusal(
    () => removeAll(kernel, excludeCidrs, progress),
    () => hasRemoved(progress) || progress.failures.length > 0,
  )
  if (error instanceof KernelError) progress.failures.push(error)
  return progress
}

/** Whether the clean-up removed anything. */
export function hasRemoved({ virtualServers, routes, device, sets }: CleanUpReport): boolean {
  return device || virtualServers + routes + sets > 0
}

/** Enters each removal in `progress`, so that it is known also after an error. Throws KernelError. */
async function removeAll(
  kernel: IpvsKernel & SetKernel,
  excludeCidrs: readonly Cidr[],
  progress: Progress,
): Promise<void> {
  const isExcluded = (address: IpAddress): boolean => excludeCidrs.some((cidr) => cidrContains(cidr, address))
  const dummy = await findDummyDevice(kernel.links)
  const { failures } = progress
  let addressCount = 0
  for (const family of ['ipv4', 'ipv6'] as const) {
    const addresses =
      dummy === undefined ? [] : hostAddresses(await kernel.routes.dumpAddresses(family, dummy.index))
    const sets = await readOwnSets(kernel.ipset, family)
    const routeOps = await ourRoutes(kernel, family, (address) => sets.marksVip(address))
    const bound = new Set([...addresses, ...routeOps.map(({ route }) => route.address)])
    const own = new Set(await machineAddresses(family, kernel))
    const isMarkedOurs = (server: VirtualServerKey): boolean =>
      sets.marksOurs(server, (address) => own.has(address))
    const isOurs = (server: VirtualServerKey): boolean => {
      if ('mark' in server) return isMarkedOurs(server)
      return (bound.has(server.address) || isMarkedOurs(server)) && !isExcluded(server.address)
    }
    // Without a binding and a set no virtual server is ours. A request to IP_VS would make the kernel load it.
    const serverOps = bound.size === 0 && sets.isEmpty ? [] : await ourServers(kernel, family, isOurs)
    if (serverOps === undefined) progress.hasIpvs = false
    else if (serverOps.length > 0)
      progress.virtualServers += count(serverOps, await kernel.ipvs.apply(serverOps), failures)
    if (failures.length > 0) continue
    progress.routes += count(routeOps, await kernel.routes.apply(routeOps), failures)
    addressCount += addresses.length
  }
  if (failures.length > 0) return
  if (dummy !== undefined) {
    await kernel.links.remove(dummy.index)
    progress.device = true
    progress.addresses = addressCount
  }
  const sets = await cleanUpSets(kernel)
  progress.sets = sets.removed
  failures.push(...sets.failures)
}

/** Counts VIPs whose routes are provably ours, and the addresses on the dummy device. Throws KernelError. */
export async function countVips(kernel: IpvsKernel & SetKernel): Promise<number> {
  const dummy = await findDummyDevice(kernel.links)
  let vips = 0
  for (const family of ['ipv4', 'ipv6'] as const) {
    const sets = await readOwnSets(kernel.ipset, family)
    const routes = await ourRoutes(kernel, family, (address) => sets.marksVip(address))
    const bound =
      dummy === undefined ? [] : hostAddresses(await kernel.routes.dumpAddresses(family, dummy.index))
    vips += new Set([...bound, ...routes.map(({ route }) => route.address)]).size
  }
  return vips
}

/** Routes of our shape whose addresses our sets or kube-proxy's name as VIPs. */
async function ourRoutes(
  { links, routes }: IpvsKernel,
  family: IpFamily,
  isMarkedVip: (address: IpAddress) => boolean,
): Promise<readonly (RouteOp & { readonly op: 'remove-route' })[]> {
  const interfaceIndex = await findLoopback(links)
  const dumped = new PackedRoutes(await routes.dumpLocalRoutes(family))
  const ops: (RouteOp & { readonly op: 'remove-route' })[] = []
  for (let index = 0; index < dumped.length; index++) {
    const address = dumped.address(index)
    if (!dumped.isLikeOurs(index, interfaceIndex) || !isMarkedVip(address)) continue
    ops.push({ op: 'remove-route', route: { address, interfaceIndex, protocol: dumped.protocol(index) } })
  }
  return ops
}

/** undefined: the kernel has no IP_VS. */
async function ourServers(
  { ipvs }: IpvsKernel,
  family: IpFamily,
  isOurs: (server: VirtualServerKey) => boolean,
): Promise<readonly IpvsOp[] | undefined> {
  const servers = await orRefusal(() => ipvs.dump(family), isWithoutIpvs)
  if (servers instanceof KernelError) return undefined
  const dump = new PackedDump(servers)
  const ops: IpvsOp[] = []
  for (let index = 0; index < dump.length; index++) {
    const server = dump.key(index)
    if (isOurs(server)) ops.push({ op: 'remove-virtual-server', server })
  }
  return ops
}

/** Describes the report in one sentence for the operator. */
export function describeCleanUp(report: CleanUpReport): string {
  const { virtualServers, routes, addresses, sets } = report
  const device = report.device ? `, the device ${dummyDeviceName} with ${addresses} addresses` : ''
  const ipvs = report.hasIpvs ? '' : ' (this kernel has no IP_VS: no virtual servers to remove)'
  const failures = report.failures.map(({ message }) => `; failed: ${message}`).join('')
  return `removed ${virtualServers} virtual servers, ${routes} VIP routes${device}${sets === 0 ? '' : `, ${sets} sets`}${ipvs}${failures}`
}

/** The generic netlink family or the socket option does not exist. */
export function isWithoutIpvs(error: KernelError): boolean {
  return error.subsystem === 'ipvs' && (error.code === 'ENOENT' || error.code === 'ENOPROTOOPT')
}

/** Returns the number of operations that succeeded. An object that did not exist any more is no failure. */
function count(ops: readonly unknown[], outcome: BatchOutcome, failures: KernelError[]): number {
  failures.push(...outcome.failures.map(({ error }) => error).filter((error) => !isNotFound(error)))
  return ops.length - outcome.failures.length
}

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
async function readOwnSets(ipset: Ipset, family: IpFamily): Promise<IpsetTable> {
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
async function cleanUpSets(
  kernel: SetKernel,
): Promise<{ readonly removed: number; readonly failures: readonly KernelError[] }> {
  const names = new Set(families.flatMap((family) => [...ownedSetNames(family)]))
  const headers = (await unlessWithoutSets(() => kernel.ipset.sets())) ?? []
  const present = headers.filter((set) => names.has(set.name) || isLeftProbe(set)).map(({ name }) => name)
  if (present.length === 0) return { removed: 0, failures: [] }
  const failures = await destroySets(kernel, present)
  return { removed: present.length - failures.length, failures }
}
