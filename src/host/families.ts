// The families that a mode can program on this machine, with x_tables, or with rules of x_tables in nf_tables.
import type { IpFamily } from '../address.js'
import { isPermanent, KernelError, orRefusal, isTransient } from '../errors.js'
import type { Sysctl, Kernel, XtTableName, NfTransaction, Nftables } from '../kernel/index.js'
import type { Log } from '../log.js'

interface FindFamiliesOptions {
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

type XtablesKernel = Pick<Kernel, 'xtables' | 'nftChains' | 'sysctl'>

interface FindXtablesOptions {
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

/** A transaction by which nothing is made: the name only differs from the tables that exist. */
const probeTable = { family: 'ipv4', table: 'viaduct-probe' } as const
const probeChain = 'probe'

/** struct xt_comment_info, without text. The match has one revision on every kernel. */
const comment = { kind: 'match', name: 'comment', revision: 0, info: new Uint8Array(256) } as const

const probe: NfTransaction = [
  // Dormant: the kernel registers no hook.
  { op: 'create-table', table: { ...probeTable, flags: ['dormant'] } },
  { op: 'add-chain', chain: { ...probeTable, chain: probeChain } },
  { op: 'add-rule', rule: { ...probeTable, chain: probeChain, expressions: [comment] } },
]

const probeOperation = 'probe nft_compat'

/** Errors that say nothing about the kernel: the process may not use nf_tables, or the socket is closed. */
const aboutProcess: ReadonlySet<string> = new Set(['EPERM', 'EACCES', 'EBADF'])

/**
 * Checks that the kernel has nf_tables with nft_compat, which rules of the flavour nft need. The kernel checks a rule and makes nothing,
 * but loads the modules. Throws KernelError (`isWithoutNftCompat`, or a failure that says nothing about the kernel).
 */
export async function requireNftCompat(nftables: Pick<Nftables, 'apply'>): Promise<void> {
  const outcome = await orRefusal(async () => await nftables.apply(probe, { isDryRun: true }))
  const error = outcome instanceof KernelError ? outcome : outcome.failures[0]?.error
  if (error === undefined) return
  if (isTransient(error) || aboutProcess.has(error.code)) throw error
  throw new KernelError({
    errno: error.errno,
    subsystem: 'nftables',
    operation: probeOperation,
    object: 'match comment',
  })
}

/** Whether the error says that the kernel has no nf_tables or no nft_compat. */
export function isWithoutNftCompat(error: KernelError): boolean {
  return error.subsystem === 'nftables' && error.operation === probeOperation
}

/**
 * Resolves with the results of concurrent requests. They run at the same time, as the kernel may load a module for each. Waits for
 * all. If several fail, rejects with the error of the first in the list, not of the first in time.
 */
export async function inOrder<T extends readonly unknown[] | []>(
  requests: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(requests)
  return await Promise.all(requests)
}
