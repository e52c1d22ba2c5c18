import type { IpFamily } from '../address.js'
import { KernelError } from '../errors.js'
import {
  type BatchOutcome,
  type Ipset,
  type IpsetEntry,
  IpsetEntryCursor,
  type IpsetOp,
  type IpsetType,
  type OperationFailure,
} from '../kernel/index.js'
import { type Drift, type DumpedSet, type IpsetBatch, type IpsetTable, standInName } from '../ledger/index.js'
import type { Log, StateReporter } from '../log.js'
import type { FamilyMetrics } from '../metrics.js'
import { familySetName, formerSets, type SetKey, setKeys, setName, setSpec } from '../modes/ipvs/index.js'
import type { Clock } from './clock.js'
import { logFamily } from './sync-report.js'

export interface IpvsSetsOptions {
  readonly family: IpFamily
  readonly ipset: Ipset
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  readonly problems: StateReporter
  readonly table: IpsetTable
}

interface Refused {
  readonly failure: OperationFailure
  readonly op: IpsetOp | undefined
}

/** Brings the sets of one family to what the table says. Every failure is told; what is left to do shows at the next read. */
export class IpvsSets {
  readonly #options: IpvsSetsOptions
  #ownsFormer = true

  constructor(options: IpvsSetsOptions) {
    this.#options = options
  }

  /** Holds the kernel against the table. False: it could not be read. */
  async read(options: { readonly keepLeftovers: boolean }): Promise<boolean> {
    const { table } = this.#options
    const wasAdopted = table.isAdopted
    const dumped = await this.#ask('read', async () => await dumpSets(this.#options.ipset, table))
    if (dumped === undefined) return false
    const drift = table.adopt(dumped, options)
    if (wasAdopted) this.#tell(drift)
    return true
  }

  /** Makes sets, and adds what is wanted. False: something is missing still. */
  async add(): Promise<boolean> {
    const { table } = this.#options
    return (
      (await this.#applyAll('make', () => table.planSets())) &&
      (await this.#applyAll('add', () => table.planAdds()))
    )
  }

  /** Deletes what is not wanted. False: something is left. */
  async discard(): Promise<boolean> {
    return await this.#applyAll('delete', () => this.#options.table.planDeletes())
  }

  /** Destroys kube-proxy's sets that this mode has no use for; no rule refers to them any more. */
  async destroyFormer(): Promise<void> {
    if (!this.#ownsFormer) return
    const { family, ipset } = this.#options
    const names = new Set(formerNames(family))
    const isDone = await this.#ask('clean', async () => {
      const present = (await ipset.sets()).filter(
        ({ name, references }) => names.has(name) && references === 0,
      )
      const outcome = await ipset.apply(present.map(({ name }) => ({ op: 'destroy-set', name }) as const))
      // Somebody may have listed one just then: the next sync tries again.
      return outcome.failures.length === 0
    })
    if (isDone === true) this.#ownsFormer = false
  }

  /** The cheap look: whether a set has another number of entries than the kernel acknowledged. */
  async findsDrift(): Promise<boolean> {
    const { ipset, table } = this.#options
    const headers = await this.#ask('read', async () => await ipset.sets())
    return headers !== undefined && !table.isLike(headers)
  }

  #tell(drift: Drift): void {
    const { family, log, metrics } = this.#options
    for (const [kind, count] of drift) metrics.drift(kind).inc(count)
    if (drift.size === 0) return
    const ipFamily = logFamily(family)
    log.info('Kernel differs, repairing', { ipFamily, drift: Object.fromEntries(drift) })
  }

  /** False: some operations failed, or could not be sent. */
  async #applyAll(what: 'make' | 'add' | 'delete', plan: () => IpsetBatch): Promise<boolean> {
    const { clock, table } = this.#options
    let refused: Refused | undefined
    for (let batch = plan(); batch.ops.length > 0; batch = plan()) {
      const outcome = await this.#apply(batch)
      if (outcome === undefined) return false
      const failures = table.confirm(batch, outcome)
      const [failure] = failures
      if (failure !== undefined) refused ??= { failure, op: batch.ops[failure.index] }
      // A set that could not be made is not tried twice.
      if (what === 'make') break
      await clock.pause()
    }
    this.#report(what, refused)
    return refused === undefined
  }

  async #apply({ ops }: IpsetBatch): Promise<BatchOutcome | undefined> {
    const { ipset, metrics } = this.#options
    const outcome = await this.#ask('write', async () => await ipset.apply(ops))
    const failed = new Set(outcome?.failures.map(({ index }) => index))
    for (const [index, { op }] of ops.entries()) {
      if (outcome === undefined) break
      const counters = metrics.operation(op)
      if (failed.has(index)) counters.failed.inc()
      else counters.applied.inc()
    }
    return outcome
  }

  /** Of what the kernel refused, the first: the others are mostly like it. */
  #report(what: string, refused: Refused | undefined): void {
    const { family, metrics, problems } = this.#options
    const key = `${what} ${family} ipset entries`
    if (refused === undefined) {
      problems.report(key, undefined)
      return
    }
    const { error } = refused.failure
    metrics.kernelError(error.operation, error.code)
    const fields = { ipFamily: logFamily(family), operation: refused.op?.op, code: error.code }
    problems.report(key, { text: `${logFamily(family)} sets: ${error.message}`, fields })
  }

  async #ask<T>(what: string, question: () => Promise<T>): Promise<T | undefined> {
    const { family, metrics, problems } = this.#options
    const key = `${what} ${family} ipset`
    try {
      const answer = await question()
      problems.report(key, undefined)
      return answer
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      metrics.kernelError(error.operation, error.code)
      const ipFamily = logFamily(family)
      problems.report(key, { text: `${ipFamily} sets: ${error.message}`, fields: { ipFamily } })
      return undefined
    }
  }
}

/** The sets of the table as the kernel has them. Throws KernelError. */
export async function dumpSets(ipset: Ipset, table: IpsetTable): Promise<ReadonlyMap<SetKey, DumpedSet>> {
  const headers = new Map((await ipset.sets()).map((header) => [header.name, header]))
  const dumped = new Map<SetKey, DumpedSet>()
  for (const [key, name] of table.names) {
    const header = headers.get(name)
    if (header === undefined) continue
    const { type } = setSpec(key)
    const isReadable = header.type === type && header.elements > 0
    dumped.set(key, { header, entries: isReadable ? entriesOf(await ipset.entries(name), type) : [] })
  }
  return dumped
}

function* entriesOf(records: Uint8Array, type: IpsetType): Generator<IpsetEntry> {
  const cursor = new IpsetEntryCursor(records, type)
  for (let index = 0; index < cursor.length; index++) yield cursor.entry(index)
}

/** kube-proxy's that the mode does without, and what a death in the middle of a change may have left. */
function formerNames(family: IpFamily): readonly string[] {
  return [...formerSets.map((name) => familySetName(name, family)), standInName(family)]
}

/** Names of all sets of a family that the mode, or kube-proxy before it, may have made. */
export function ownedSetNames(family: IpFamily): ReadonlySet<string> {
  return new Set([...setKeys.map((key) => setName(key, family)), ...formerNames(family)])
}
