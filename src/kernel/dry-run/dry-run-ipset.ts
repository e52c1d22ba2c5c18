import { constants } from 'node:os'
import { KernelError } from '../../errors.js'
import { describeIpsetOp, familyOfIpsetOp, type Ipset, type IpsetOp } from '../ipset/ipset.js'
import type { XtListing } from '../xtables/listing.js'
import { readOnce, takeBatch, withMembers } from './take-batch.js'
import type { TakeTransaction } from './transaction.js'

const { EBUSY, ENOENT } = constants.errno

export interface DryRunIpsetOptions {
  /** False: ipset is not loaded, and has no sets. */
  readonly isLoaded: boolean
  /** All tables of x_tables, as the transactions leave them. Throws KernelError. */
  readonly tables: () => Promise<readonly XtListing[]>
  readonly take: TakeTransaction
}

/** The sets in a dry run. A set that a rule uses after the transactions so far is not destroyed: the kernel would refuse it. */
export function dryRunIpset(real: Ipset, { isLoaded, tables, take }: DryRunIpsetOptions): Ipset {
  const reads = isLoaded ? real : withMembers(real, unloaded)
  const headers = readOnce(async () => await reads.sets())
  /** Sets that the transactions have made or renamed, and those that they have destroyed. */
  const made = new Set<string>()
  const gone = new Set<string>()
  return withMembers(reads, {
    apply: async (ops) => {
      const present = await headers()
      const isUsed = ops.some(isRemoval) && present.some(({ references }) => references > 0)
      const used = isUsed ? usedSets(await tables()) : new Set<string>()
      const remove = (name: string): number => {
        const isThere = made.delete(name) || (!gone.has(name) && present.some((set) => set.name === name))
        if (!isThere) return ENOENT
        gone.add(name)
        return 0
      }
      const words = { subsystem: 'ipset', describe: describeIpsetOp, familyOf: familyOfIpsetOp } as const
      const answer = (op: IpsetOp): number => {
        if (op.op === 'destroy-set') return used.has(op.name) ? EBUSY : remove(op.name)
        const errno = op.op === 'rename-set' ? remove(op.name) : 0
        if (op.op === 'create-set') made.add(op.set.name)
        if (op.op === 'rename-set' && errno === 0) made.add(op.to)
        return errno
      }
      return takeBatch(ops, words, answer, (taken) => take({ part: 'ipset', ops: taken }))
    },
  })
}

const unloaded: Partial<Ipset> = {
  sets: async () => [],
  entries: async (name) => {
    throw absent('list entries', name)
  },
  number: async (name) => {
    throw absent('find set', name)
  },
}

function absent(operation: string, object: string): KernelError {
  return new KernelError({ errno: ENOENT, subsystem: 'ipset', operation, object })
}

function isRemoval({ op }: IpsetOp): boolean {
  return op === 'destroy-set' || op === 'rename-set'
}

/** The names of the sets to which rules refer. */
function usedSets(tables: readonly XtListing[]): ReadonlySet<string> {
  const used = new Set<string>()
  for (const rule of tables.flat().flatMap(({ rules }) => rules)) {
    const name = /--ma(?:tch|p)-set (?<name>\S+)/u.exec(rule)?.groups?.['name']
    if (name !== undefined) used.add(name)
  }
  return used
}
