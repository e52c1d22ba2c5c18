// Finds out whether the kernel has the extensions of x_tables that read sets, for rules in nf_tables.
import type { IpFamily } from '../../address.js'
import { isTransient, KernelError } from '../../errors.js'
import { findFamilies, isWithoutNftCompat, requireNftCompat } from '../../host/index.js'
import type { NfExpression, NfTransaction, Nftables, Sysctl } from '../../kernel/index.js'
import type { Log } from '../../log.js'

/** The probe makes no table: the name only differs from those that exist. */
const probeTable = 'viaduct-probe'
const probeOperation = 'probe xt_set'
/** Errors that say nothing about the kernel: the process may not use nf_tables, or the socket is closed. */
const aboutProcess: ReadonlySet<string> = new Set(['EPERM', 'EACCES', 'EBADF'])

/**
 * The extensions, with structures that are too short. A kernel that has an extension refuses it with EINVAL for the length, before it
 * looks for the set; a kernel without it refuses with another error (nft_match_select_ops(), nft_target_select_ops()).
 */
const extensions = [
  { kind: 'match', name: 'set', revision: 4, info: new Uint8Array(8) },
  { kind: 'target', name: 'SET', revision: 3, info: new Uint8Array(8) },
] as const satisfies readonly NfExpression[]

export interface ProbeOptions {
  readonly kernel: { readonly nftables: Pick<Nftables, 'apply'>; readonly sysctl: Sysctl }
  readonly log: Log
}

/**
 * The families whose nf_tables can have the rules. Throws KernelError without those of IPv4: `isWithoutNftCompat`, or
 * `isWithoutSetRules`.
 */
export async function familiesWithSetRules({ kernel, log }: ProbeOptions): Promise<readonly IpFamily[]> {
  return await findFamilies({
    sysctl: kernel.sysctl,
    log,
    find: async (family) => await probeFamily(kernel.nftables, family),
    isLack: (error) => isWithoutNftCompat(error) || isWithoutSetRules(error),
  })
}

/** The kernel checks the rules and makes nothing, but loads the modules. */
async function probeFamily(nftables: Pick<Nftables, 'apply'>, family: IpFamily): Promise<void> {
  await requireNftCompat(nftables)
  const { failures } = await nftables.apply(transactionFor(family), { isDryRun: true })
  const first = failures.find(({ error }) => error.code !== 'EINVAL')
  if (first === undefined) return
  const { error, operation = 0 } = first
  if (isTransient(error) || aboutProcess.has(error.code)) throw error
  const extension = extensions[operation - firstRule]
  const object = extension === undefined ? 'tables' : `${extension.kind} ${extension.name}`
  throw new KernelError({
    errno: error.errno,
    subsystem: 'nftables',
    operation: probeOperation,
    family,
    object,
  })
}

/** Whether the error says that the kernel lacks a table for the rules, or xt_set; its object names which. */
export function isWithoutSetRules(error: KernelError): boolean {
  return error.subsystem === 'nftables' && error.operation === probeOperation
}

/** Index of the first rule in the transaction. */
const firstRule = 2

function transactionFor(family: IpFamily): NfTransaction {
  const table = { family, table: probeTable }
  const place = { ...table, chain: 'probe' }
  return [
    // Dormant: the kernel registers no hook.
    { op: 'create-table', table: { ...table, flags: ['dormant'] } },
    { op: 'add-chain', chain: place },
    ...extensions.map(
      (extension) => ({ op: 'add-rule', rule: { ...place, expressions: [extension] } }) as const,
    ),
  ]
}
