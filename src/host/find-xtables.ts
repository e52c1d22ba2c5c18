// Finds legacy x_tables, and loads its modules on a node where iptables has not run yet.
import type { IpFamily } from '../address.js'
import { isTransient, KernelError } from '../errors.js'
import type { Kernel, Sysctl, XtTableName } from '../kernel/index.js'
import type { Log } from '../log.js'
import { findFamilies } from './families.js'
import { inOrder } from './in-order.js'

type XtablesKernel = Pick<Kernel, 'xtables' | 'nftChains' | 'sysctl'>

export interface FindXtablesOptions {
  readonly kernel: XtablesKernel
  readonly tables: readonly XtTableName[]
  readonly log: Log
  /** Called for a family as soon as its tables are found. */
  readonly onFound?: (family: IpFamily) => void
}

/** Returns the families whose tables exist. Throws KernelError without the IPv4 tables. */
export async function familiesWithXtables(options: FindXtablesOptions): Promise<readonly IpFamily[]> {
  return await findFamilies({
    sysctl: options.kernel.sysctl,
    log: options.log,
    find: async (family) => await findTables(options, family),
    isLack: isWithoutXtables,
  })
}

/** Whether the error says that the table or its module does not exist. */
export function isWithoutXtables(error: KernelError): boolean {
  return error.subsystem === 'xtables' && (error.code === 'ENOPROTOOPT' || error.code === 'ENOENT')
}

/** Checks the tables. If they are not loaded, tries once to load them. */
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

/** Ignores permanent errors: the check of the tables that follows reports them. */
async function loadXtables({ nftChains }: Pick<XtablesKernel, 'nftChains'>, family: IpFamily): Promise<void> {
  try {
    await nftChains.loadXtables(family)
  } catch (error) {
    if (!(error instanceof KernelError) || isTransient(error)) throw error
  }
}

/** F-058: whether conntrack marks packets outside the TCP window as invalid. With be_liberal it does not, and no packet is dropped. */
export async function findsInvalid(sysctl: Sysctl): Promise<boolean> {
  const liberal = await sysctl.read('net/netfilter/nf_conntrack_tcp_be_liberal')
  return liberal === undefined || liberal === '0'
}
