// A copy of the table of one family, for the time in which kube-proxy starts: its modes iptables and ipvs delete the table `kube-proxy`
// before their first sync.
import { constants } from 'node:os'
import { type IpAddress, type IpFamily, readAddress } from '../../address.js'
import { asRefusal, isNotFound, KernelError } from '../../errors.js'
import {
  NfElements,
  type NfChain,
  type NfOutcome,
  type NfTransaction,
  type Nftables,
} from '../../kernel/index.js'
import { schemaOf, setNamed } from './compile/schema.js'

export const handOverTable = 'viaduct-hand-over'

/**
 * The chains of the copy come after those of the table and of kube-proxy's iptables mode, whose priorities are at most 1 above those of
 * the table: the first translation of a connection counts.
 */
const laterBy = 2

/** The operation of an error that says that the kernel knows no owners. */
const createOwned = 'create table with an owner'

/** nf_tables_newtable() refuses a flag that it does not know with EINVAL before Linux 5.13, and with EOPNOTSUPP since. */
const aboutFlags: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP'])

/** Other programs may change the ruleset while the table is read. */
const attempts = 5

/**
 * Copies the table with its elements to the table `viaduct-hand-over`, which belongs to the socket of `nftables`: the kernel deletes it
 * when the socket is closed. Returns the cluster IPs; none: there is no table of Viaduct's, and no copy. Throws KernelError: EEXIST if
 * another process has such a copy, ERESTART if the ruleset changes all the time; `isWithoutOwnedTables` before Linux 5.13.
 */
export async function copyTable(nftables: Nftables, family: IpFamily): Promise<readonly IpAddress[]> {
  for (let left = attempts; ; left--) {
    const generation = await nftables.generation()
    const copy = await readCopy(nftables, family)
    if (copy === undefined) return []
    const outcome = await nftables.apply(copy.transaction, { generation })
    const error = refusalOf(outcome)
    if (error === undefined) return copy.clusterIPs
    // The table is the first operation.
    if (outcome.failures[0]?.operation === 0 && aboutFlags.has(error.code))
      throw new KernelError({
        errno: error.errno,
        subsystem: 'nftables',
        operation: createOwned,
        family,
        object: handOverTable,
      })
    if (error.code !== 'ERESTART' || left <= 1) throw error
  }
}

/** Whether the error of `copyTable` says that the kernel has no tables that end with their owner. */
export function isWithoutOwnedTables({ subsystem, operation }: KernelError): boolean {
  return subsystem === 'nftables' && operation === createOwned
}

/** Deletes the copy. No error if it is absent. Throws KernelError. */
export async function deleteCopy(nftables: Nftables, family: IpFamily): Promise<void> {
  const outcome = await nftables.apply([{ op: 'delete-table', table: { family, table: handOverTable } }])
  const error = refusalOf(outcome)
  if (error !== undefined && !isNotFound(error)) throw error
}

interface Copy {
  readonly transaction: NfTransaction
  readonly clusterIPs: readonly IpAddress[]
}

/** undefined: there is no table with the sets of Viaduct. */
async function readCopy(nftables: Nftables, family: IpFamily): Promise<Copy | undefined> {
  const schema = schemaOf(family)
  const states = await nftables.sets(schema.table).catch((error: unknown) => {
    asRefusal(error, isNotFound)
    return []
  })
  const sets = states.map(({ set }) => setNamed(family, set)).filter((set) => set !== undefined)
  if (!sets.includes(schema.clusterIPs)) return undefined
  const contents = await Promise.all(sets.map(async (set) => await nftables.elements(set)))
  const chains = await nftables.chains(schema.table)
  const rules = await Promise.all(
    chains.map(async ({ chain }) => await nftables.rules({ ...schema.table, chain })),
  )
  const clusterIPs = contents[sets.indexOf(schema.clusterIPs)]
  return {
    clusterIPs: clusterIPs === undefined ? [] : addressesIn(clusterIPs, family),
    transaction: [
      {
        op: 'create-table',
        table: { ...copied(schema.table), flags: ['owner'], comment: 'until kube-proxy has synced' },
      },
      ...chains.map((chain) => ({ op: 'add-chain', chain: later(chain) }) as const),
      ...sets.map((set) => ({ op: 'add-set', set: copied(set) }) as const),
      ...contents
        .filter(({ length }) => length > 0)
        .map(({ set, bytes, labels }) => ({
          op: 'add-elements' as const,
          elements: new NfElements(copied(set), bytes, labels),
        })),
      ...rules.flat().map((rule) => ({ op: 'add-rule', rule: copied(rule) }) as const),
    ],
  }
}

function addressesIn({ bytes, stride, length }: NfElements, family: IpFamily): readonly IpAddress[] {
  return Array.from({ length }, (_, i) => readAddress(bytes, i * stride, family))
}

function copied<T extends { readonly table: string }>(object: T): T {
  return { ...object, table: handOverTable }
}

function later({ hook, ...chain }: NfChain): NfChain {
  const copy = copied(chain)
  return hook === undefined ? copy : { ...copy, hook: { ...hook, priority: hook.priority + laterBy } }
}

function refusalOf({ state, failures: [failure] }: NfOutcome): KernelError | undefined {
  if (failure !== undefined) return failure.error
  if (state === 'applied') return undefined
  return new KernelError({
    errno: constants.errno.ENOBUFS,
    subsystem: 'nftables',
    operation: 'copy the table to',
    object: handOverTable,
    extack: "the kernel's answer was lost",
  })
}
