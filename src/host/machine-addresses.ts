import type { IpAddress, IpFamily } from '../address.js'
import { AddressCursor, type Links, type Routes } from '../kernel/index.js'

/** The dummy device of ipvs mode's VIPs: kube-proxy's name, so that a takeover finds them. */
export const dummyDeviceName = 'kube-ipvs0'

/** The machine's own addresses of a family, each once, but for the VIPs of ipvs mode. Throws KernelError. */
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
