// Whether nf_tables of this kernel can hold rules of x_tables.
import { isTransient, KernelError, orRefusal } from '../errors.js'
import type { NfTransaction, Nftables } from '../kernel/index.js'

/** Nothing is made: the name only differs from the tables that exist. */
const table = { family: 'ipv4', table: 'viaduct-probe' } as const
const chain = 'probe'

/** struct xt_comment_info, without text. The match has one revision on every kernel. */
const comment = { kind: 'match', name: 'comment', revision: 0, info: new Uint8Array(256) } as const

const probe: NfTransaction = [
  // Dormant: the kernel registers no hook.
  { op: 'create-table', table: { ...table, flags: ['dormant'] } },
  { op: 'add-chain', chain: { ...table, chain } },
  { op: 'add-rule', rule: { ...table, chain, expressions: [comment] } },
]

const operation = 'probe nft_compat'

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
  throw new KernelError({ errno: error.errno, subsystem: 'nftables', operation, object: 'match comment' })
}

/** Whether the error says that the kernel has no nf_tables or no nft_compat. */
export function isWithoutNftCompat(error: KernelError): boolean {
  return error.subsystem === 'nftables' && error.operation === operation
}
