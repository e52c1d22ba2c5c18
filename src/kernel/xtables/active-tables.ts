import { readFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Nftables } from '../nftables/nftables.js'
import type { XtTableName } from './xtables.js'

const files: Readonly<Record<IpFamily, string>> = { ipv4: 'ip_tables_names', ipv6: 'ip6_tables_names' }
const known: readonly XtTableName[] = ['nat', 'filter', 'mangle', 'raw']

/**
 * The legacy tables that exist in our network namespace; empty too if the kernel has no x_tables. Opening a table instead would load
 * its module and create it. `root`: /proc/net. Throws KernelError.
 */
export async function readActiveTables(family: IpFamily, root: string): Promise<readonly XtTableName[]> {
  let text: string
  try {
    text = await readFile(join(root, files[family]), 'utf8')
  } catch (error) {
    const errno = error instanceof Error && 'errno' in error ? Math.abs(Number(error.errno)) : undefined
    if (errno === constants.errno.ENOENT) return []
    if (errno === undefined) throw error
    throw new KernelError({ errno, subsystem: 'xtables', operation: 'list tables', family })
  }
  const names = text.split('\n')
  return known.filter((table) => names.includes(table))
}

/** Errors of a kernel without nfnetlink, and of one without nf_tables. */
const absences: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EINVAL'])

/**
 * The tables that exist in nf_tables; empty too if the kernel has no nf_tables. Throws KernelError. NB: the request makes the kernel load
 * nf_tables if the module is available.
 */
export async function listNftTables(family: IpFamily, nftables: Nftables): Promise<readonly XtTableName[]> {
  const found = await orRefusal(
    () => nftables.tables(family),
    ({ code }) => absences.has(code),
  )
  if (found instanceof KernelError) return []
  return known.filter((name) => found.some(({ table }) => table === name))
}
