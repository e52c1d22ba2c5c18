// Removes what a former owner left in our table.
import type { Pass } from '../../../engine/index.js'
import type { KernelError } from '../../../errors.js'
import type { NfOp, NfOutcome, NfTransaction } from '../../../kernel/index.js'
import { nftOperations, SentOperations } from './transaction.js'
import type { TableContent } from './content.js'

type Send = (transaction: NfTransaction) => Promise<NfOutcome>

/** Operations of a transaction: the kernel deletes a thousand chains in some milliseconds. */
const opsPerTransaction = 1000

/**
 * Removes the sets, chains and counters of the table that the structure does not have. No packet meets them: our rules lead to none of them.
 * Returns the errors of those that stay for now: until Linux 6.2 a chain counts as in use for a while after the deletion of an
 * element that leads to it. Throws KernelError when the kernel refuses everything.
 */
export async function removeUnknown(
  send: Send,
  content: TableContent,
  pass: Pass,
): Promise<readonly KernelError[]> {
  const { structure, table } = content
  const { sets, chains, counters } = structure.unknown
  const chainOps = (op: 'flush-chain' | 'delete-chain'): readonly NfOp[] =>
    chains.map((chain) => ({ op, chain: { ...table, chain } }))
  // Rules use sets and counters, elements lead to chains, and rules do.
  const steps: readonly (readonly NfOp[])[] = [
    chainOps('flush-chain'),
    sets.map((set) => ({ op: 'delete-set', set: { ...table, set } })),
    chainOps('delete-chain'),
    counters.map((counter) => ({ op: 'delete-counter', counter: { ...table, counter } })),
  ]
  const errors: KernelError[] = []
  for (const step of steps) {
    for (let from = 0; from < step.length; from += opsPerTransaction)
      errors.push(...(await remove(send, content, { ops: step.slice(from, from + opsPerTransaction), pass })))
  }
  return errors
}

/** Sends the operations, once more without those that are refused. */
async function remove(
  send: Send,
  { structure, staleParts, staticSets }: TableContent,
  { ops, pass }: { readonly ops: readonly NfOp[]; readonly pass: Pass },
): Promise<readonly KernelError[]> {
  const errors: KernelError[] = []
  for (let left = ops; left.length > 0;) {
    const { state, failures } = await send(left)
    if (state === 'applied') {
      pass.count(nftOperations, new SentOperations(left), { applied: left.length, failures: [] })
      structure.confirm(left)
      for (const each of staticSets) if (!structure.hasSet(each.set)) each.read(undefined)
      return errors
    }
    const refused = new Set(failures.map(({ operation }) => operation))
    const [failure] = failures
    if (state === 'unknown' || refused.has(undefined) || failure === undefined) {
      staleParts.markAllStale()
      if (failure !== undefined) throw failure.error
      return errors
    }
    errors.push(...failures.map(({ error }) => error))
    left = left.filter((_, index) => !refused.has(index))
  }
  return errors
}
