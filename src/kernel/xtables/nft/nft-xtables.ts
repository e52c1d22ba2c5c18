import { constants } from 'node:os'
import type { IpFamily } from '../../../address.js'
import { KernelError } from '../../../errors.js'
import type { Ipset } from '../../ipset/ipset.js'
import type { NfFailure, Nftables, NfTransaction } from '../../nftables/nftables.js'
import { closedError } from '../../request-queue.js'
import { describeXtTable } from '../describe.js'
import { encodeXtBatch, type XtPlace } from '../encode.js'
import type {
  RulePackets,
  XtApplyOptions,
  XtChainSummary,
  XtDrift,
  XtKeptChain,
  XtOp,
  XtOutcome,
  XtRefusal,
  XtTableName,
  Xtables,
} from '../xtables.js'
import { PackedRulePackets } from '../rule-packets.js'
import { Repairs } from '../repairs.js'
import { DesiredTable } from '../desired.js'
import { readTable } from './image.js'
import { type TablePlan, TablePlanner } from './plan.js'
import { findSets, RuleCodec, setNameOf, type SetNumbers } from './rules.js'

/** Times that a call starts again because another program changed nf_tables meanwhile. */
const maxRepeats = 20

const operation = 'change the table'

/** The table at one generation, and what it lacks. */
interface Reading {
  readonly generation: number
  readonly kept: readonly XtKeptChain[]
  readonly plan: TablePlan
}

/**
 * A table of x_tables that nf_tables holds, as iptables-nft writes it (docs/wire/xtables-nft.md). The generation of nf_tables takes the
 * place of a lock: if another program commits between read and write, the kernel refuses the transaction, and the call starts again.
 */
export class NftXtables implements Xtables {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly #nftables: Nftables
  readonly #ipset: Ipset
  readonly #desired: DesiredTable
  readonly #subject: { readonly family: IpFamily; readonly object: string }
  readonly #repairs = new Repairs()
  #isApplied = false
  /** The generation at which the table was last found as desired. */
  #seen: number | undefined
  /** Settles when the last requested call is done. Never rejects. */
  #tail: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor({ family, table }: XtPlace, nftables: Nftables, ipset: Ipset) {
    this.family = family
    this.table = table
    this.#nftables = nftables
    this.#ipset = ipset
    this.#desired = new DesiredTable(table)
    this.#subject = { family, object: describeXtTable(family, table) }
  }

  /** Only checks the operations: the kernel loads the modules of a rule when it gets the rule. */
  async load(ops: readonly XtOp[]): Promise<void> {
    encodeXtBatch(ops, this) // throws BugError for invalid operations
  }

  stage(ops: readonly XtOp[]): Promise<void> {
    encodeXtBatch(ops, this)
    return this.#inTurn(async () => this.#desired.record(ops))
  }

  apply(ops: readonly XtOp[], { prune = [] }: XtApplyOptions = {}): Promise<XtOutcome> {
    encodeXtBatch(ops, this)
    return this.#inTurn(async () => {
      this.#desired.record(ops)
      this.#desired.prune(prune)
      this.#desired.held.clear()
      const sets = await this.#findSets()
      const [absent] = this.#withoutSet(sets)
      if (absent !== undefined) throw absent.error
      return await this.#untilSettled(sets, (reading, repeats) => this.#applyOnce(reading, repeats))
    })
  }

  refusals(): Promise<readonly XtRefusal[]> {
    return this.#inTurn(async () => {
      const sets = await this.#findSets()
      const absent = this.#withoutSet(sets)
      if (absent.length > 0) return absent
      const { transaction, places } = (await this.#read(sets)).plan
      const { failures } = await this.#nftables.apply(transaction, { isDryRun: true })
      return failures.flatMap((failure) => {
        const place = places.get(failure.operation ?? -1)
        return place === undefined ? [] : [{ ...place, error: this.#errorIn(place.chain, failure.error) }]
      })
    })
  }

  check(): Promise<boolean> {
    return this.#inTurn(async () => {
      if (!this.#isApplied) return false
      if ((await this.#nftables.generation()) === this.#seen) return true
      const { missing, changed } = await this.#compare()
      return missing.length + changed.length === 0
    })
  }

  compare(): Promise<XtDrift> {
    return this.#inTurn(() => this.#compare())
  }

  takeRepairs(): XtDrift {
    return this.#repairs.take()
  }

  chains(): Promise<readonly XtChainSummary[]> {
    return this.#inTurn(async () => {
      const chains = await this.#nftables.chains(this)
      return chains.filter(({ hook }) => hook === undefined).map(({ chain }) => ({ chain }))
    })
  }

  async packets(chains: readonly string[]): Promise<RulePackets> {
    this.#checkOpen()
    const counts: (readonly number[])[] = []
    for (const chain of chains) counts.push(this.#desired.isHook(chain) ? [] : await this.#packetsOf(chain))
    return PackedRulePackets.of(counts)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#tail
  }

  async #packetsOf(chain: string): Promise<readonly number[]> {
    const { family, table } = this
    const rules = await this.#nftables.rules({ family, table, chain })
    return rules.map(({ expressions }) => {
      const counter = expressions.find((expression) => expression.kind === 'counter')
      return counter?.packets ?? 0
    })
  }

  #checkOpen(): void {
    if (this.#isClosed) throw closedError('nftables', this.#subject)
  }

  /** Runs one call after the other. */
  async #inTurn<T>(call: () => Promise<T>): Promise<T> {
    this.#checkOpen()
    const answer = this.#tail.then(call)
    this.#tail = answer.catch(() => {})
    return await answer
  }

  /** Calls `act` until it returns a result, each time with a new reading. */
  async #untilSettled<T>(
    sets: SetNumbers,
    act: (reading: Reading, repeats: number) => Promise<T | undefined>,
  ): Promise<T> {
    for (let repeats = 0; repeats <= maxRepeats; repeats++) {
      const result = await act(await this.#read(sets), repeats)
      if (result !== undefined) return result
    }
    throw this.#error(constants.errno.EAGAIN, 'other programs keep changing nf_tables')
  }

  async #read(sets: SetNumbers): Promise<Reading> {
    const { family, table } = this
    const place = { family, table }
    const generation = await this.#nftables.generation()
    const image = await readTable(this.#nftables, place, this.#desired)
    const codec = new RuleCodec(family, sets)
    return {
      generation,
      kept: image.kept,
      plan: new TablePlanner(place, this.#desired, image, codec).plan(),
    }
  }

  /** undefined: another program committed meanwhile. */
  async #applyOnce(reading: Reading, repeats: number): Promise<XtOutcome | undefined> {
    const { generation, kept, plan } = reading
    const { transaction, badJump } = plan
    const isWritten = transaction.length > 0
    if (!isWritten && !(await this.#isStill(generation))) return undefined
    if (badJump !== undefined) throw this.#jumpError(badJump)
    if (isWritten) {
      const { state, failures } = await this.#nftables.apply(transaction, { generation })
      if (failures.some(({ error }) => error.code === 'ERESTART')) return undefined
      if (this.#holds(transaction, failures)) return undefined
      if (state !== 'applied') throw this.#failureOf(plan, failures)
    }
    this.#desired.settle(kept)
    this.#repairs.add(plan.repairs)
    this.#isApplied = true
    this.#seen = isWritten ? generation + 1 : generation
    return { isWritten, entries: 0, bytes: 0, repeats, lockWaitMs: 0, kept }
  }

  /** Notes the chains that cannot be deleted, since an element of a map jumps to them. True: the transaction failed for nothing else. */
  #holds(transaction: NfTransaction, failures: readonly NfFailure[]): boolean {
    const held = failures.flatMap(({ operation: index = -1, error }) => {
      const op = transaction[index]
      return op?.op === 'delete-chain' && error.code === 'EBUSY' ? [op.chain.chain] : []
    })
    for (const chain of held) this.#desired.held.add(chain)
    return held.length > 0 && held.length === failures.length
  }

  async #isStill(generation: number): Promise<boolean> {
    return (await this.#nftables.generation()) === generation
  }

  async #compare(): Promise<XtDrift> {
    const sets = await this.#findSets()
    return await this.#untilSettled(sets, async ({ generation, plan }) => {
      if (!(await this.#isStill(generation))) return undefined
      if (plan.transaction.length === 0) this.#seen = generation
      return plan.drift
    })
  }

  async #findSets(): Promise<SetNumbers> {
    const rules = [...this.#desired.rules()].flatMap(([, desired]) => desired)
    return await findSets(rules, this.family, this.#ipset)
  }

  /** The desired rules that name a set without a number. */
  #withoutSet(sets: SetNumbers): readonly XtRefusal[] {
    return [...this.#desired.rules()].flatMap(([chain, rules]) =>
      rules.flatMap((rule, index) => {
        const error = sets.get(setNameOf(rule) ?? '')
        return error instanceof KernelError
          ? [{ chain, rule: index, error: this.#errorIn(chain, error) }]
          : []
      }),
    )
  }

  #jumpError({ chain, target }: NonNullable<TablePlan['badJump']>): KernelError {
    return this.#error(constants.errno.ENOENT, `chain ${chain} jumps to ${target}, which does not exist`)
  }

  #failureOf({ places }: TablePlan, [failure]: readonly NfFailure[]): KernelError {
    if (failure === undefined)
      return this.#error(constants.errno.EIO, 'the kernel refused it without a reason')
    const place = places.get(failure.operation ?? -1)
    return place === undefined ? failure.error : this.#errorIn(place.chain, failure.error)
  }

  #error(errno: number, extack: string): KernelError {
    return new KernelError({ errno, subsystem: 'nftables', operation, extack, ...this.#subject })
  }

  /** The kernel's error on a rule. */
  #errorIn(chain: string, { errno, operation: of, extack = '' }: KernelError): KernelError {
    const object = `${this.#subject.object} ${chain}`
    return new KernelError({
      errno,
      subsystem: 'nftables',
      operation: of,
      extack,
      family: this.family,
      object,
    })
  }
}
