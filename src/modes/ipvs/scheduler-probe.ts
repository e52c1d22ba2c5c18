// Probes for schedulers: adds a virtual server, for which the kernel loads the scheduler's module, and removes it.
import { type IpAddress, type IpFamily, parseIpAddress } from '../../address.js'
import { BugError, isExists, isNotFound, type KernelError } from '../../errors.js'
import {
  type AddressVirtualServerKey,
  type BatchOutcome,
  hostPrefixLength,
  type Ipvs,
  VirtualServerCursor,
} from '../../kernel/index.js'

/** Addresses for documentation (TEST-NET-2 of RFC 5737, as in kube-proxy's probe, and RFC 3849): no Service uses them. */
const probeAddresses: Readonly<Record<IpFamily, string>> = { ipv4: '198.51.100.0', ipv6: '2001:db8::' }

/** The schedulers of existing virtual servers. They need no probe, which is a write. Throws KernelError. */
export async function schedulersInUse(ipvs: Ipvs, family: IpFamily): Promise<ReadonlySet<string>> {
  const servers = new VirtualServerCursor((await ipvs.dump(family)).virtualServers)
  const schedulers = new Set<string>()
  for (let index = 0; index < servers.length; index++) schedulers.add(servers.scheduler(index))
  return schedulers
}

/** False: the kernel does not have the scheduler. Throws KernelError for any other failure; then the probe may still exist. */
export async function hasScheduler(ipvs: Ipvs, family: IpFamily, scheduler: string): Promise<boolean> {
  const first = await tryScheduler(ipvs, family, scheduler)
  // A process that died during a probe left its server behind. The first try removed that server.
  const error = first !== undefined && isExists(first) ? await tryScheduler(ipvs, family, scheduler) : first
  if (error === undefined) return true
  if (error.code === 'ENOENT') return false
  throw error
}

/** Removes a probe that may still exist. Throws KernelError. */
export async function removeProbe(ipvs: Ipvs, family: IpFamily): Promise<void> {
  const outcome = await ipvs.apply([{ op: 'remove-virtual-server', server: probeServer(family) }])
  const error = failureAt(outcome, 0)
  if (error !== undefined && !isNotFound(error)) throw error
}

/** Resolves with the kernel's refusal of the probe; undefined: it was accepted. Throws KernelError when it may still exist. */
async function tryScheduler(
  ipvs: Ipvs,
  family: IpFamily,
  scheduler: string,
): Promise<KernelError | undefined> {
  const key = probeServer(family)
  const settings = { scheduler, flags: 0, timeoutSeconds: 0, netmaskLength: hostPrefixLength(family) }
  const outcome = await ipvs.apply([
    { op: 'add-virtual-server', server: { key, settings } },
    { op: 'remove-virtual-server', server: key },
  ])
  const error = failureAt(outcome, 1)
  if (error !== undefined && !isNotFound(error)) throw error
  return failureAt(outcome, 0)
}

function failureAt({ failures }: BatchOutcome, index: number): KernelError | undefined {
  return failures.find((failure) => failure.index === index)?.error
}

function probeServer(family: IpFamily): AddressVirtualServerKey {
  const address: IpAddress | undefined = parseIpAddress(probeAddresses[family])
  if (address === undefined) throw new BugError('the probe address does not parse')
  return { family, protocol: 'tcp', address, port: 20000 }
}
