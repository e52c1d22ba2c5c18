// Finds legacy x_tables, and loads its modules on a node where iptables has not run yet.
import type { IpFamily } from '../address.js'
import { isPermanent, KernelError, orRefusal } from '../errors.js'
import type { Kernel, Sysctl, XtTableName } from '../kernel/index.js'
import type { Log } from '../log.js'
import { inOrder } from './in-order.js'

type XtablesKernel = Pick<Kernel, 'xtables' | 'nftChains' | 'sysctl'>

export interface FindXtablesOptions {
  readonly kernel: XtablesKernel
  readonly tables: readonly XtTableName[]
  readonly log: Log
  /** Called for a family as soon as its tables are found. */
  readonly onFound?: (family: IpFamily) => void
}

/**
 * Returns the families whose tables exist, IPv4 first. Throws KernelError if the IPv4 tables do not exist, or the tables cannot be
 * read. A node without ip6_tables, or with IPv6 off, gets no IPv6 Services (F-085).
 */
export async function familiesWithXtables(options: FindXtablesOptions): Promise<readonly IpFamily[]> {
  const { log } = options
  if (!(await hasIpv6(options))) {
    await findTables(options, 'ipv4')
    log.info('IPv6 Services are not programmed: IPv6 is off on this node', { ipFamily: 'IPv6' })
    return ['ipv4']
  }
  const [, absence] = await inOrder([
    findTables(options, 'ipv4'),
    orRefusal(() => findTables(options, 'ipv6'), isWithoutXtables),
  ])
  if (!(absence instanceof KernelError)) return ['ipv4', 'ipv6']
  log.warn('IPv6 Services are not programmed', { ipFamily: 'IPv6', err: absence })
  return ['ipv4']
}

/** The setting exists exactly when the kernel has IPv6. A kernel booted with ipv6.disable=1 has neither it nor /proc/net/if_inet6. */
async function hasIpv6({ kernel, log }: FindXtablesOptions): Promise<boolean> {
  const setting = 'net/ipv6/conf/all/disable_ipv6'
  const disabled = await orRefusal(() => kernel.sysctl.read(setting), isPermanent)
  if (disabled instanceof KernelError) {
    log.warn('IPv6 setting cannot be read: the agent assumes that IPv6 is on', { setting, err: disabled })
    return true
  }
  return disabled !== undefined && disabled !== '1'
}

/** Whether the error says that the table or its module does not exist. */
export function isWithoutXtables(error: KernelError): boolean {
  return error.subsystem === 'xtables' && (error.code === 'ENOPROTOOPT' || error.code === 'ENOENT')
}

/** Checks the tables. If they are not loaded, tries once to load them. */
async function findTables(options: FindXtablesOptions, family: IpFamily): Promise<void> {
  const absence = await orRefusal(() => checkTables(options, family), isWithoutXtables)
  if (absence instanceof KernelError) {
    await loadXtables(options.kernel, family)
    await checkTables(options, family)
  }
  options.onFound?.(family)
}

async function checkTables({ kernel, tables }: FindXtablesOptions, family: IpFamily): Promise<void> {
  await inOrder(tables.map((table) => kernel.xtables(family, table).check()))
}

/** Ignores permanent errors: the check of the tables that follows reports them. */
async function loadXtables({ nftChains }: Pick<XtablesKernel, 'nftChains'>, family: IpFamily): Promise<void> {
  await orRefusal(() => nftChains.loadXtables(family), isPermanent)
}

/**
 * F-058: whether conntrack finds packets outside the TCP window invalid. With be_liberal it does not, and Viaduct drops no invalid
 * packets. Throws KernelError.
 */
export async function findsInvalid(sysctl: Sysctl): Promise<boolean> {
  const liberal = await sysctl.read('net/netfilter/nf_conntrack_tcp_be_liberal')
  return liberal === undefined || liberal === '0'
}
