// Legacy x_tables, which a node that nobody used iptables on has not loaded yet.
import type { IpFamily } from '../address.js'
import { isTransient, KernelError } from '../errors.js'
import type { Kernel, Sysctl, XtTableName } from '../kernel/index.js'
import type { Log } from '../log.js'
import { inOrder } from './in-order.js'

type XtablesKernel = Pick<Kernel, 'xtables' | 'nftChains' | 'sysctl'>

export interface FindXtablesOptions {
  readonly kernel: XtablesKernel
  readonly tables: readonly XtTableName[]
  readonly log: Log
  /** Is called for a family as soon as its tables are found. */
  readonly onFound?: (family: IpFamily) => void
}

/**
 * IPv4 must be there, or KernelError is thrown; a kernel without ip6_tables, or on which IPv6 is off, is one without IPv6
 * Services (F-085).
 */
export async function familiesWithXtables(options: FindXtablesOptions): Promise<readonly IpFamily[]> {
  const { log } = options
  if (!(await hasIpv6(options))) {
    await findTables(options, 'ipv4')
    log.info('IPv6 Services are not programmed: IPv6 is off on this node', { ipFamily: 'IPv6' })
    return ['ipv4']
  }
  const [, lacking] = await inOrder([findTables(options, 'ipv4'), lackOfTables(options, 'ipv6')])
  if (lacking === undefined) return ['ipv4', 'ipv6']
  log.warn('IPv6 Services are not programmed', { ipFamily: 'IPv6', err: lacking })
  return ['ipv4']
}

/** The setting is there exactly where the kernel has IPv6, and /proc/net/if_inet6 with it: a kernel booted with ipv6.disable=1 has neither. */
async function hasIpv6({ kernel, log }: FindXtablesOptions): Promise<boolean> {
  const setting = 'net/ipv6/conf/all/disable_ipv6'
  try {
    const disabled = await kernel.sysctl.read(setting)
    return disabled !== undefined && disabled !== '1'
  } catch (error) {
    if (!(error instanceof KernelError) || isTransient(error)) throw error
    log.warn('Cannot read whether IPv6 is off: taken to be on', { setting, err: error })
    return true
  }
}

/** undefined: they are there. */
async function lackOfTables(options: FindXtablesOptions, family: IpFamily): Promise<KernelError | undefined> {
  try {
    await findTables(options, family)
    return undefined
  } catch (error) {
    if (error instanceof KernelError && isWithoutXtables(error)) return error
    throw error
  }
}

/** The table, or its module, does not exist. */
export function isWithoutXtables(error: KernelError): boolean {
  return error.subsystem === 'xtables' && (error.code === 'ENOPROTOOPT' || error.code === 'ENOENT')
}

/** Where they are not loaded, they are asked for once. */
async function findTables(options: FindXtablesOptions, family: IpFamily): Promise<void> {
  try {
    await checkTables(options, family)
  } catch (error) {
    if (!(error instanceof KernelError) || !isWithoutXtables(error)) throw error
    await loadXtables(options.kernel, family)
    await checkTables(options, family)
  }
  options.onFound?.(family)
}

async function checkTables({ kernel, tables }: FindXtablesOptions, family: IpFamily): Promise<void> {
  await inOrder(tables.map((table) => kernel.xtables(family, table).check()))
}

/** What is in the way shows in the tables. */
async function loadXtables({ nftChains }: Pick<XtablesKernel, 'nftChains'>, family: IpFamily): Promise<void> {
  try {
    await nftChains.loadXtables(family)
  } catch (error) {
    if (!(error instanceof KernelError) || isTransient(error)) throw error
  }
}

/** F-058: a liberal conntrack takes packets for valid that a strict one does not know; then none is dropped. */
export async function findsInvalid(sysctl: Sysctl): Promise<boolean> {
  const liberal = await sysctl.read('net/netfilter/nf_conntrack_tcp_be_liberal')
  return liberal === undefined || liberal === '0'
}
