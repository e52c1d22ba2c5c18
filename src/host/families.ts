// The families that a mode can program on this machine.
import type { IpFamily } from '../address.js'
import { isPermanent, KernelError, orRefusal } from '../errors.js'
import type { Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'
import { inOrder } from './in-order.js'

export interface FindFamiliesOptions {
  readonly sysctl: Sysctl
  readonly log: Log
  /** Checks that the kernel has what a mode needs for the family. Throws KernelError. */
  readonly find: (family: IpFamily) => Promise<void>
  /** Whether the error says that the kernel lacks a feature. */
  readonly isLack: (error: KernelError) => boolean
}

/**
 * Returns the families that `find` accepts. Throws its error for IPv4. A node without IPv6 sockets, a kernel that lacks a feature
 * for IPv6, or has IPv6 off, gets no IPv6 Services (F-085).
 */
export async function findFamilies(options: FindFamiliesOptions): Promise<readonly IpFamily[]> {
  const { log, find } = options
  if (!(await hasIpv6(options))) {
    await find('ipv4')
    log.info('IPv6 Services are not programmed: IPv6 is off on this node', { ipFamily: 'IPv6' })
    return ['ipv4']
  }
  const isLack = (error: KernelError): boolean => isWithoutFamily(error) || options.isLack(error)
  const [, lack] = await inOrder([find('ipv4'), orRefusal(() => find('ipv6'), isLack)])
  if (!(lack instanceof KernelError)) return ['ipv4', 'ipv6']
  log.warn('IPv6 Services are not programmed', { ipFamily: 'IPv6', err: lack })
  return ['ipv4']
}

/** socket() says this where the kernel, or a filter of system calls around the agent, has no sockets of the family. */
function isWithoutFamily(error: KernelError): boolean {
  return error.code === 'EAFNOSUPPORT'
}

/** The setting exists exactly when the kernel has IPv6. A kernel booted with ipv6.disable=1 has neither it nor /proc/net/if_inet6. */
async function hasIpv6({ sysctl, log }: FindFamiliesOptions): Promise<boolean> {
  const setting = 'net/ipv6/conf/all/disable_ipv6'
  const disabled = await orRefusal(() => sysctl.read(setting), isPermanent)
  if (disabled instanceof KernelError) {
    log.warn('IPv6 setting cannot be read: the agent assumes that IPv6 is on', { setting, err: disabled })
    return true
  }
  return disabled !== undefined && disabled !== '1'
}
