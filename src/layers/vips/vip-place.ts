// The devices and the source address for the VIPs of a family: lo, the dummy device, and the node's own address.
import { type IpAddress, familyOf } from '../../address.js'
import type { VipBinding } from '../../config/index.js'
import { KernelError, isExists, orRefusal } from '../../errors.js'
import type { Link, Links, Routes } from '../../kernel/index.js'
import { dummyDeviceName } from '../../host/index.js'
import { type Log, StateReporter } from '../../log.js'
import type { VipPlace } from './vip.js'
import { includesAddress } from './packed-bindings.js'

/** The reason why there is no dummy device of ours: the kernel has none at all, or a device of another kind has its name. */
export type DummyProblem = 'no-module' | 'name-taken'

/** Finds the dummy device, or creates it. Throws KernelError. */
export async function ensureDummyDevice(links: Links): Promise<Link | DummyProblem> {
  const present = await links.find(dummyDeviceName)
  if (present !== undefined) return isOurs(present) ? present : 'name-taken'
  const made = await orRefusal(() => links.addDummy(dummyDeviceName))
  if (!(made instanceof KernelError)) return made
  if (made.code === 'EOPNOTSUPP') return 'no-module'
  // The pipeline of the other family created it meanwhile.
  const other = isExists(made) ? await findDummyDevice(links) : undefined
  if (other === undefined) throw made
  return other
}

/** undefined: there is no device of this name, or it is no dummy device, and so not ours. */
export async function findDummyDevice(links: Links): Promise<Link | undefined> {
  const present = await links.find(dummyDeviceName)
  return present !== undefined && isOurs(present) ? present : undefined
}

function isOurs({ kind }: Link): boolean {
  return kind === 'dummy'
}

/** The result of `findVipPlace`, with a hint for the operator. */
interface FoundPlace {
  readonly place: VipPlace
  /** The node's address is known, but no interface has it. */
  readonly isNodeIpForeign: boolean
}

/** Reads the kernel; throws KernelError when it does not answer. */
export async function findVipPlace(
  kernel: { readonly links: Links; readonly routes: Routes },
  dummy: Link | undefined,
  nodeIp: IpAddress | undefined,
): Promise<FoundPlace> {
  const isLocal = nodeIp !== undefined && (await isLocalAddress(kernel.routes, nodeIp, dummy))
  return {
    place: {
      loopbackIndex: await findLoopback(kernel.links),
      dummyIndex: dummy?.index,
      preferredSource: isLocal ? nodeIp : undefined,
    },
    isNodeIpForeign: nodeIp !== undefined && !isLocal,
  }
}

/** The index of lo; 1, its usual index, if lo is not found. */
export async function findLoopback(links: Links): Promise<number> {
  return (await links.find('lo'))?.index ?? 1
}

async function isLocalAddress(routes: Routes, address: IpAddress, dummy: Link | undefined): Promise<boolean> {
  return includesAddress(await routes.dumpAddresses(familyOf(address)), address, dummy?.index)
}

/** Advice for an operator whose node has no dummy device of ours. */
export function dummyAdvice(problem: DummyProblem, binding: VipBinding): string {
  const [cause, remedy] =
    problem === 'no-module'
      ? ['this kernel has no dummy devices', 'load the module dummy']
      : [`the device ${dummyDeviceName} is no dummy device, and not ours`, 'rename or remove it']
  return binding === 'addresses'
    ? `${cause}; --vip-binding=addresses needs one: ${remedy}, or use --vip-binding=routes`
    : `${cause}: VIPs are bound by routes on lo only, and there is no ${dummyDeviceName} of ours`
}

/** Opens the reporter of hints for the operator about VIPs, for both families. */
export function openVipHints(log: Log): StateReporter {
  return new StateReporter({
    log,
    level: 'warn',
    problemLine: 'VIP binding is limited',
    recovery: 'VIP binding is no longer limited',
  })
}
