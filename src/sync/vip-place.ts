// Where the VIPs of a family are bound: lo, the dummy device, and the node's own address.
import { type IpAddress, familyOf } from '../address.js'
import type { VipBinding } from '../config/index.js'
import { KernelError, isExists } from '../errors.js'
import type { Link, Links, Routes } from '../kernel/index.js'
import { type VipPlace, dummyDeviceName, includesAddress } from '../ledger/index.js'

/** Finds the dummy device, or creates it; undefined on a kernel that has no such devices. */
export async function ensureDummyDevice(links: Links): Promise<Link | undefined> {
  const present = await links.find(dummyDeviceName)
  if (present !== undefined) return present
  try {
    return await links.addDummy(dummyDeviceName)
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    if (error.code === 'EOPNOTSUPP') return undefined
    // The other family's pipeline was faster.
    if (isExists(error)) return await links.find(dummyDeviceName)
    throw error
  }
}

/** What `findVipPlace` found, and what the operator should know about it. */
export interface FoundPlace {
  readonly place: VipPlace
  /** The node's address is known, but no interface carries it. */
  readonly isNodeIpForeign: boolean
}

/** Asks the kernel; throws KernelError when it could not be asked. */
export async function findVipPlace(
  kernel: { readonly links: Links; readonly routes: Routes },
  dummy: Link | undefined,
  nodeIp: IpAddress | undefined,
): Promise<FoundPlace> {
  const loopback = await kernel.links.find('lo')
  const isLocal = nodeIp !== undefined && (await isLocalAddress(kernel.routes, nodeIp, dummy))
  return {
    place: {
      loopbackIndex: loopback?.index ?? 1,
      dummyIndex: dummy?.index,
      preferredSource: isLocal ? nodeIp : undefined,
    },
    isNodeIpForeign: nodeIp !== undefined && !isLocal,
  }
}

async function isLocalAddress(routes: Routes, address: IpAddress, dummy: Link | undefined): Promise<boolean> {
  return includesAddress(await routes.dumpAddresses(familyOf(address)), address, dummy?.index)
}

/** What an operator can do about a kernel without dummy devices. */
export function dummyAdvice(binding: VipBinding): string {
  return binding === 'addresses'
    ? `this kernel has no dummy devices, which --vip-binding=addresses needs: load the module dummy, or use --vip-binding=routes`
    : `this kernel has no dummy devices: VIPs are bound by routes on lo only, and ${dummyDeviceName} is missing`
}
