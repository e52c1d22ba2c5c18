import {
  type Cidr,
  cidrContains,
  type IpAddress,
  type IpFamily,
  isLinkLocal,
  parseCidr,
  parseIpAddress,
} from '../address.js'
import { BugError } from '../errors.js'
import { AddressCursor, type Links, type Routes } from '../kernel/index.js'

/** The dummy device that holds the VIPs of ipvs mode. The name is kube-proxy's, so that a takeover finds its VIPs. */
export const dummyDeviceName = 'kube-ipvs0'

interface AddressKernel {
  readonly links: Links
  readonly routes: Routes
}

/** The machine's addresses of a family, sorted, without duplicates and without the VIPs of ipvs mode. Throws KernelError. */
export async function machineAddresses(
  family: IpFamily,
  kernel: AddressKernel,
): Promise<readonly IpAddress[]> {
  return (await readMachineAddresses(family, kernel)).addresses
}

interface MachineAddresses {
  /** As `machineAddresses`. */
  readonly addresses: readonly IpAddress[]
  /** The index of the device with the VIPs of ipvs mode; undefined: there is none. */
  readonly vipDevice: number | undefined
}

/** Throws KernelError. */
export async function readMachineAddresses(
  family: IpFamily,
  { links, routes }: AddressKernel,
): Promise<MachineAddresses> {
  const vips = await links.find(dummyDeviceName)
  const dumped = new AddressCursor(await routes.dumpAddresses(family))
  const found = new Set<IpAddress>()
  for (let index = 0; index < dumped.length; index++) {
    if (dumped.interfaceIndex(index) !== vips?.index) found.add(dumped.address(index))
  }
  return { addresses: [...found].toSorted(), vipDevice: vips?.index }
}

const loopback: Readonly<Record<IpFamily, Cidr>> = { ipv4: cidr('127.0.0.0/8'), ipv6: cidr('::1/128') }

/** Addresses for documentation (RFC 5737, RFC 3849): only a default route leads to them. */
const elsewhere: Readonly<Record<IpFamily, IpAddress>> = { ipv4: ip('192.0.2.0'), ipv6: ip('2001:db8::') }

/**
 * The address of each family that this machine's packets to other networks have, as kubelet chooses the IPs of its Node. Without a
 * default route: the first address that other machines can reach. Throws KernelError.
 */
export async function outgoingAddresses(kernel: AddressKernel): Promise<readonly IpAddress[]> {
  const found = await Promise.all(
    (['ipv4', 'ipv6'] as const).map(async (family) => {
      const [choice] = await kernel.routes.lookUp([{ destination: elsewhere[family] }])
      if (choice?.isRouted === true && !choice.isLocal && choice.preferredSource !== undefined)
        return choice.preferredSource
      const addresses = await machineAddresses(family, kernel)
      return addresses.find((address) => !isLinkLocal(address) && !cidrContains(loopback[family], address))
    }),
  )
  return found.filter((address) => address !== undefined)
}

function cidr(text: string): Cidr {
  const parsed = parseCidr(text)
  if (parsed === undefined) throw new BugError(`${text} is not a CIDR`)
  return parsed
}

function ip(text: string): IpAddress {
  const parsed = parseIpAddress(text)
  if (parsed === undefined) throw new BugError(`${text} is not an address`)
  return parsed
}
