import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import { describeIpsetOp, type Ipset, type IpsetOp, type Nftables } from '../../kernel/index.js'
import { logFamily, type OperationKind, type Pass } from '../../engine/index.js'
import { type Drift, RetryQueue } from '../objects/index.js'
import type { IpvsContext } from './context.js'
import type { DumpedSet, IpsetBatch, IpsetTable } from './tables/ipset-table.js'
import type { SetState } from './tables/ipset-set.js'
import { standInName } from './tables/ipset-changes.js'
import {
  familySetName,
  forbiddingSets,
  formerSets,
  type SetKey,
  setKeys,
  setName,
  setSpec,
  sourceKeepingSets,
} from './compile/sets.js'
import type { UnfitSets } from './compile/chains.js'
import { requireNftCompat } from '../../host/index.js'

const setOperations: OperationKind<IpsetOp> = { name: 'ipset', describe: describeIpsetOp, isMetered: true }

const restrictingSets: ReadonlySet<SetKey> = new Set([...forbiddingSets, ...sourceKeepingSets])

/**
 * Brings the sets of one family to the state of the table. If the kernel refuses a set or some of its entries, the others are still
 * written. Refused sets are reported by name, counted, and retried with back-off.
 */
export class IpvsSets {
  readonly #context: IpvsContext
  readonly #table: IpsetTable
  readonly #retries: RetryQueue<SetState>
  readonly #readings: RetryQueue<'read'>
  #ownsFormer = true

  constructor(context: IpvsContext, table: IpsetTable) {
    this.#context = context
    this.#table = table
    this.#retries = new RetryQueue(context.clock)
    this.#readings = new RetryQueue(context.clock)
  }

  /** Compares the kernel with the table. False: it could not be read, and is to be read again (`readInMs`). */
  async read(options: { readonly keepLeftovers: boolean }): Promise<boolean> {
    const table = this.#table
    const wasAdopted = table.isAdopted
    const { ipset } = this.#context.kernel
    const dumped = await this.#ask('read', async () => await dumpSets(ipset, table))
    if (dumped instanceof KernelError) {
      this.#readings.fail('read')
      return false
    }
    this.#readings.settle('read')
    const drift = table.adopt(dumped, options)
    if (wasAdopted) this.#reportDrift(drift)
    return true
  }

  /** Makes sets, and adds desired entries. False: the sets must be read before it can continue. */
  async add(pass: Pass): Promise<boolean> {
    const table = this.#table
    for (const set of this.#retries.due()) table.retry(set)
    const isSent =
      (await this.#applyAll(pass, () => table.planSets())) &&
      (await this.#applyAll(pass, () => table.planAdds()))
    this.#reportFailures()
    return isSent && !table.isStale
  }

  /** Deletes unwanted entries that refuse or drop packets, or keep their source. False: a batch could not be sent. */
  async permit(pass: Pass): Promise<boolean> {
    return await this.#applyAll(pass, () => this.#table.planDeletes(restrictingSets))
  }

  /** Deletes all unwanted entries, which ends a pass. False: the sets must be read before it can continue. */
  async discard(pass: Pass): Promise<boolean> {
    const table = this.#table
    const isSent = await this.#applyAll(pass, () => table.planDeletes())
    this.#reportFailures()
    if (!isSent || table.isStale) return false
    this.#reportRecoveries()
    table.endPass()
    return true
  }

  /** Milliseconds until the next reading, after one that the kernel refused; undefined: it refused none. */
  readInMs(): number | undefined {
    return this.#readings.nextInMs()
  }

  /** The sets that are missing or lack entries because the kernel refused operations. */
  get gaps(): UnfitSets {
    return this.#table.gaps
  }

  /** Whether `add` has a retry that is due. */
  get isRetryDue(): boolean {
    return this.nextInMs() === 0
  }

  /** Milliseconds until the next retry; undefined: nothing is refused, or the sets are to be read before. */
  nextInMs(): number | undefined {
    return this.#table.isStale ? undefined : this.#retries.nextInMs()
  }

  /**
   * Destroys kube-proxy's sets that this mode does not use, and a set that a killed process left, unless a rule refers to them. Does
   * nothing after a call that left none of them.
   */
  async destroyFormer(): Promise<void> {
    if (!this.#ownsFormer) return
    const { family, kernel } = this.#context
    const { ipset } = kernel
    const names = new Set(formerNames(family))
    const isDone = await this.#ask('clean', async () => {
      const present = (await ipset.sets()).map(({ name }) => name).filter((name) => names.has(name))
      // The kernel refuses (EBUSY) while a rule refers to a set or another program lists it: the next sync tries again.
      return present.length === 0 || (await destroySets(kernel, present)).length === 0
    })
    if (isDone === true) this.#ownsFormer = false
  }

  /** Whether the kernel's sets, or their numbers of entries, differ from the acknowledged ones; undefined: it did not answer. */
  async findsDrift(): Promise<boolean | undefined> {
    const { ipset } = this.#context.kernel
    const headers = await this.#ask('read', async () => await ipset.sets())
    return headers instanceof KernelError ? undefined : !this.#table.isLike(headers)
  }

  #reportDrift(drift: Drift): void {
    const { family, log, metrics } = this.#context
    for (const [kind, count] of drift) metrics.drift(kind).inc(count)
    if (drift.size === 0) return
    const ipFamily = logFamily(family)
    log.info('Kernel state differs and is repaired', { ipFamily, drift: Object.fromEntries(drift) })
  }

  /** False: a batch could not be sent. */
  async #applyAll(pass: Pass, plan: () => IpsetBatch): Promise<boolean> {
    const { clock, kernel } = this.#context
    for (let batch = plan(); batch.ops.length > 0; batch = plan()) {
      const outcome = await this.#ask('write', async () => await kernel.ipset.apply(batch.ops))
      if (outcome instanceof KernelError) return false
      pass.count(setOperations, batch.ops, outcome)
      this.#table.confirm(batch, outcome)
      await clock.pause()
    }
    return true
  }

  #reportFailures(): void {
    const { family, metrics, problems } = this.#context
    for (const set of this.#table.failedSets) {
      if (set.failure === undefined) continue
      const { error } = set.failure
      // The problem is reported after additions and again after deletions. Each attempt counts once.
      if (this.#retries.fail(set)) metrics.kernelError(error.operation, error.code)
      const fields = { ipFamily: logFamily(family), set: set.name, code: error.code }
      problems.report(problemOf(set), { text: `${logFamily(family)} ${describeFailure(set)}`, fields })
    }
  }

  #reportRecoveries(): void {
    for (const set of this.#retries.items()) {
      if (set.failure !== undefined) continue
      this.#retries.settle(set)
      this.#context.problems.report(problemOf(set), undefined)
    }
  }

  async #ask<T>(what: 'read' | 'write' | 'clean', question: () => Promise<T>): Promise<T | KernelError> {
    return await this.#context.questions.ask({ key: `${what} ipset`, subject: 'sets' }, question)
  }
}

function problemOf({ name }: SetState): string {
  return `set ${name}`
}

/** `set NAME: the problem: the kernel's message`. */
function describeFailure({ name, need, foreignType, capacity, failure }: SetState): string {
  const count = failure?.entries ?? 0
  const of: Readonly<Record<SetState['need'], string>> = {
    create: 'it cannot be made, and its entries wait',
    replace: `another program's ${foreignType} has its name and cannot be removed, so its entries wait`,
    exchange: `it cannot be exchanged for one with room for more than ${capacity} entries, and the others wait`,
    nothing: `${count} of its entries are refused`,
  }
  return `set ${name}: ${of[need]}: ${failure?.error.message}`
}

/** The table's sets in the kernel. Throws KernelError. */
export async function dumpSets(ipset: Ipset, table: IpsetTable): Promise<ReadonlyMap<SetKey, DumpedSet>> {
  const headers = new Map((await ipset.sets()).map((header) => [header.name, header]))
  const dumped = new Map<SetKey, DumpedSet>()
  for (const [key, name] of table.names) {
    const header = headers.get(name)
    if (header === undefined) continue
    const isReadable = header.type === setSpec(key).type && header.elements > 0
    dumped.set(key, { header, entries: isReadable ? await ipset.entries(name) : new Uint8Array() })
  }
  return dumped
}

/** Names of kube-proxy's sets that the mode does not use, and of the set that a process leaves if it dies during an exchange. */
function formerNames(family: IpFamily): readonly string[] {
  return [...formerSets.map((name) => familySetName(name, family)), standInName(family)]
}

/** Names of all sets of a family that the mode, or kube-proxy before it, may have made. */
export function ownedSetNames(family: IpFamily): ReadonlySet<string> {
  return new Set([...setKeys.map((key) => setName(key, family)), ...formerNames(family)])
}

/** The parts of the kernel that rules and sets are in. */
export interface SetKernel {
  readonly ipset: Ipset
  readonly nftables: Pick<Nftables, 'apply'>
}

/**
 * Destroys sets. Returns the refusals; EBUSY: a rule refers to the set. Throws KernelError if the sets cannot be changed at all.
 *
 * A rule that was deleted from nf_tables keeps its reference for some milliseconds: a worker of the kernel destroys it after a grace
 * period. A check of a rule with a match of x_tables waits for this worker (nft_compat_wait_for_destructors()), so that busy sets
 * are destroyed after such a check.
 */
export async function destroySets(
  { ipset, nftables }: SetKernel,
  names: readonly string[],
): Promise<readonly KernelError[]> {
  const first = await destroy(ipset, names)
  if (first.busy.length === 0) return first.errors
  // A kernel without nft_compat has no such rules.
  await orRefusal(async () => await requireNftCompat(nftables))
  const second = await destroy(ipset, first.busy)
  return [...first.errors.filter(isNotBusy), ...second.errors]
}

async function destroy(
  ipset: Ipset,
  names: readonly string[],
): Promise<{ readonly errors: readonly KernelError[]; readonly busy: readonly string[] }> {
  const { failures } = await ipset.apply(names.map((name) => ({ op: 'destroy-set', name }) as const))
  const busy = failures.flatMap(({ index, error }) => (isNotBusy(error) ? [] : (names[index] ?? [])))
  return { errors: failures.map(({ error }) => error), busy }
}

function isNotBusy({ code }: KernelError): boolean {
  return code !== 'EBUSY'
}
