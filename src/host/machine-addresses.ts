import type { IpAddress, IpFamily } from '../address.js'
import { AddressCursor, type Links, type Routes } from '../kernel/index.js'

/** The dummy device that holds the VIPs of ipvs mode. The name is kube-proxy's, so that a takeover finds its VIPs. */
export const dummyDeviceName = 'kube-ipvs0'

/** The machine's addresses of a family, sorted, without duplicates and without the VIPs of ipvs mode. Throws KernelError. */
export async function machineAddresses(
  family: IpFamily,
  { links, routes }: { readonly links: Links; readonly routes: Routes },
): Promise<readonly IpAddress[]> {
  const vips = await links.find(dummyDeviceName)
  const dumped = new AddressCursor(await routes.dumpAddresses(family))
  const found = new Set<IpAddress>()
  for (let index = 0; index < dumped.length; index++) {
    if (dumped.interfaceIndex(index) !== vips?.index) found.add(dumped.address(index))
  }
  return [...found].toSorted()
}
