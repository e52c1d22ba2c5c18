// Whether the kernel has a scheduler shows when a virtual server is to use it: that loads the scheduler's module.
import { type IpAddress, type IpFamily, parseIpAddress } from '../address.js'
import { BugError, isExists } from '../errors.js'
import {
  type AddressVirtualServerKey,
  hostPrefixLength,
  type Ipvs,
  type VirtualServer,
} from '../kernel/index.js'

/** For documentation (TEST-NET-2 as kube-proxy's probe, RFC 3849): no Service can have them. */
const probeAddresses: Readonly<Record<IpFamily, string>> = { ipv4: '198.51.100.0', ipv6: '2001:db8::' }

/** False: the kernel does not have it. Throws KernelError for any other failure. */
export async function hasScheduler(ipvs: Ipvs, family: IpFamily, scheduler: string): Promise<boolean> {
  const key = probeServer(family)
  const netmaskLength = hostPrefixLength(family)
  const server = { key, settings: { scheduler, flags: 0, timeoutSeconds: 0, netmaskLength } }
  const failure = await addAndRemove(ipvs, server)
  // A probe that died left its server behind; the first try removed it.
  const error = failure !== undefined && isExists(failure) ? await addAndRemove(ipvs, server) : failure
  if (error === undefined) return true
  if (error.code === 'ENOENT') return false
  throw error
}

/** Resolves with what the kernel says against adding it. */
async function addAndRemove(ipvs: Ipvs, server: VirtualServer) {
  const { failures } = await ipvs.apply([
    { op: 'add-virtual-server', server },
    { op: 'remove-virtual-server', server: server.key },
  ])
  return failures.find(({ index }) => index === 0)?.error
}

function probeServer(family: IpFamily): AddressVirtualServerKey {
  const address: IpAddress | undefined = parseIpAddress(probeAddresses[family])
  if (address === undefined) throw new BugError('the probe address does not parse')
  return { family, protocol: 'tcp', address, port: 20000 }
}
