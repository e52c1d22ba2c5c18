// The families that a mode can program on this machine.
import type { IpFamily } from '../address.js'
import { isTransient, KernelError } from '../errors.js'
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
 * Returns the families that `find` accepts. Throws its error for IPv4. A kernel that lacks a feature for IPv6, or has IPv6 off, gets
 * no IPv6 Services (F-085).
 */
export async function findFamilies(options: FindFamiliesOptions): Promise<readonly IpFamily[]> {
  const { log, find } = options
  if (!(await hasIpv6(options))) {
    await find('ipv4')
    log.info('IPv6 Services are not programmed: IPv6 is off on this node', { ipFamily: 'IPv6' })
    return ['ipv4']
  }
  const [, lack] = await inOrder([find('ipv4'), lackForIpv6(options)])
  if (lack === undefined) return ['ipv4', 'ipv6']
  log.warn('IPv6 Services are not programmed', { ipFamily: 'IPv6', err: lack })
  return ['ipv4']
}

/** The setting exists exactly when the kernel has IPv6. A kernel booted with ipv6.disable=1 has neither it nor /proc/net/if_inet6. */
async function hasIpv6({ sysctl, log }: FindFamiliesOptions): Promise<boolean> {
  const setting = 'net/ipv6/conf/all/disable_ipv6'
  try {
    const disabled = await sysctl.read(setting)
    return disabled !== undefined && disabled !== '1'
  } catch (error) {
    if (!(error instanceof KernelError) || isTransient(error)) throw error
    log.warn('IPv6 setting cannot be read: the agent assumes that IPv6 is on', { setting, err: error })
    return true
  }
}

/** Resolves with the error that names the missing feature; undefined: there is none. */
async function lackForIpv6({ find, isLack }: FindFamiliesOptions): Promise<KernelError | undefined> {
  try {
    await find('ipv6')
    return undefined
  } catch (error) {
    if (error instanceof KernelError && isLack(error)) return error
    throw error
  }
}
