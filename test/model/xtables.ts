// Xtables in memory, with the rules of native/xtables (table_plan.cc), on a table of the model.
import { constants } from 'node:os'
import { KernelError } from '../../src/errors.js'
import { describeXtTable } from '../../src/kernel/xtables/describe.js'
import { Repairs } from '../../src/kernel/xtables/repairs.js'
import { PackedRulePackets } from '../../src/kernel/xtables/rule-packets.js'
import { closedError } from '../../src/kernel/request-queue.js'
import { encodeXtBatch } from '../../src/kernel/xtables/encode.js'
import type {
  RulePackets,
  XtApplyOptions,
  XtBarrier,
  XtChainSummary,
  XtDrift,
  XtHook,
  XtKeptChain,
  XtOp,
  XtOutcome,
  XtRefusal,
  XtRule,
  Xtables,
} from '../../src/kernel/xtables/xtables.js'
import type { FaultPlan } from './faults.js'
import { chainOf, type ModelXtTable } from './xtables-table.js'

const { EINVAL, ENOENT } = constants.errno

/** Faults that a test injects. `ruleFault` returns the errno with which the kernel refuses a rule; undefined: it accepts the rule. */
export interface XtFaultPlan extends Pick<FaultPlan<XtOp>, 'callFault'> {
  readonly ruleFault?: (rule: XtRule) => number | undefined
}

interface DesiredHook {
  readonly rules: readonly XtRule[]
  /** Former content, which the table may still have. */
  readonly former: readonly XtRule[]
}

/** The desired content of the table. */
interface Plan {
  readonly chains: ReadonlyMap<string, readonly XtRule[]>
  readonly drift: XtDrift
  /** `drift` without the changes that operations or `prune` require. */
  readonly repairs: XtDrift
  readonly kept: readonly XtKeptChain[]
  readonly isDone: boolean
}

/** Whether a pattern of `XtApplyOptions.prune` matches the chain. */
function matches(pattern: string, name: string, isEmpty: boolean): boolean {
  const stem = pattern.slice(0, -1)
  if (pattern.endsWith('*')) return name.startsWith(stem)
  if (pattern.endsWith('?')) return isEmpty && name === stem
  return name === pattern
}

/** net/netfilter/x_tables.c xt_check_proc_name(): the name of a `recent` list is a file name. */
function refusedRecent({ recent }: XtRule): number | undefined {
  return recent?.list === '.' || recent?.list === '..' ? EINVAL : undefined
}

/** Whether the rule drops or rejects every packet. */
function isBarrier(rule: XtRule): boolean {
  const isFatal = rule.target.kind === 'drop' || rule.target.kind === 'reject'
  return isFatal && Object.keys(rule).every((key) => key === 'target' || key === 'comment')
}

/** A client of one table. Several clients of a table are several programs, or one program before and after a restart. */
export class ModelXtables implements Xtables {
  /** The kernel's table. */
  readonly kernel: ModelXtTable
  /** Current faults of calls and rules. Tests may replace them at any time. NB: a failed `apply` still changes the desired content. */
  plan: XtFaultPlan = {}
  readonly #desired = new Map<string, readonly XtRule[]>()
  readonly #removed = new Set<string>()
  readonly #hooks = new Map<string, DesiredHook>()
  /** Patterns to prune of this apply and of earlier failed ones, and kept chains. */
  readonly #prune = new Set<string>()
  /** Chains and hooks that an operation has named since the table was last as desired. */
  readonly #new = new Set<string>()
  readonly #repairs = new Repairs()
  /** The table's info after the last apply. */
  #left: string | undefined
  #ops: XtOp[] = []
  #applies = 0
  #isClosed = false

  constructor(kernel: ModelXtTable) {
    this.kernel = kernel
  }

  get family(): Xtables['family'] {
    return this.kernel.family
  }

  get table(): Xtables['table'] {
    return this.kernel.table
  }

  /** Number of applies since the last take(), including failed ones. */
  get applies(): number {
    return this.#applies
  }

  /** Operations since the last take(), in order. */
  get ops(): readonly XtOp[] {
    return this.#ops
  }

  /** Returns the operations and clears the log. */
  take(): readonly XtOp[] {
    const ops = this.#ops
    this.#ops = []
    this.#applies = 0
    return ops
  }

  async load(ops: readonly XtOp[]): Promise<void> {
    if (this.#isClosed) throw closedError('xtables', this.#subject)
    encodeXtBatch(ops, this) // throws for operations that the kernel cannot represent
  }

  async stage(ops: readonly XtOp[]): Promise<void> {
    await this.load(ops)
    this.#ops.push(...ops)
    for (const op of ops) this.#record(op)
  }

  async apply(ops: readonly XtOp[], options: XtApplyOptions = {}): Promise<XtOutcome> {
    await this.stage(ops)
    this.#applies++
    for (const pattern of options.prune ?? []) this.#prune.add(pattern)
    this.#enter('apply')
    const plan = this.#makePlan()
    const [refusal] = this.#findRefusals()
    if (refusal !== undefined) throw this.#refusal(refusal.error.errno, 'replace the table')
    if (!plan.isDone) this.kernel.replace(plan.chains)
    this.#repairs.add(plan.repairs)
    this.#settle(plan.kept)
    const { entries, bytes } = this.kernel
    return { isWritten: !plan.isDone, entries, bytes, repeats: 0, lockWaitMs: 0, kept: plan.kept }
  }

  async refusals(): Promise<readonly XtRefusal[]> {
    this.#enter('refusals')
    return this.#findRefusals()
  }

  async check(): Promise<boolean> {
    this.#enter('check')
    return this.#left === this.kernel.info
  }

  async compare(): Promise<XtDrift> {
    this.#enter('compare')
    return this.#makePlan().drift
  }

  takeRepairs(): XtDrift {
    return this.#repairs.take()
  }

  async chains(): Promise<readonly XtChainSummary[]> {
    this.#enter('chains')
    return [...this.kernel.chains]
      .filter(([chain]) => !this.kernel.isHook(chain))
      .map(([chain, rules]) => ({ chain, rules: rules.length }))
  }

  /** `Kernel.findBarrier` of the legacy table. */
  async barrier(hook: XtHook): Promise<XtBarrier | undefined> {
    this.#enter('barrier')
    const rules = this.kernel.chains.get(hook) ?? []
    const rule = rules.findIndex((each) => isBarrier(each))
    if (rule >= 0) return { rule, isPolicy: false }
    return this.kernel.policies.get(hook) === 'DROP' ? { rule: rules.length, isPolicy: true } : undefined
  }

  async packets(chains: readonly string[]): Promise<RulePackets> {
    this.#enter('packets')
    return PackedRulePackets.of(
      chains.map((chain) => {
        const rules = this.kernel.isHook(chain) ? [] : (this.kernel.chains.get(chain) ?? [])
        return rules.map((_, i) => this.kernel.counted.get(chain)?.[i] ?? 0)
      }),
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  get #subject(): { readonly family: Xtables['family']; readonly object: string } {
    return { family: this.family, object: describeXtTable(this.family, this.table) }
  }

  #enter(call: string): void {
    if (this.#isClosed) throw closedError('xtables', this.#subject)
    const errno = this.plan.callFault?.(call)
    if (errno !== undefined) throw this.#refusal(errno, call)
  }

  #refusal(errno: number, operation: string, extack = ''): KernelError {
    return new KernelError({ errno, subsystem: 'xtables', operation, extack, ...this.#subject })
  }

  #findRefusals(): readonly XtRefusal[] {
    return [...this.#desiredRules()].flatMap(([chain, rules]) =>
      rules.flatMap((rule, i) => {
        const errno = this.plan.ruleFault?.(rule) ?? refusedRecent(rule)
        if (errno === undefined) return []
        const object = `${this.#subject.object} ${chain}`
        const operation = 'replace the table'
        const error = new KernelError({
          errno,
          subsystem: 'xtables',
          operation,
          family: this.family,
          object,
        })
        return [{ chain, rule: i, error }]
      }),
    )
  }

  *#desiredRules(): Iterable<readonly [chain: string, rules: readonly XtRule[]]> {
    yield* this.#desired
    for (const [hook, { rules }] of this.#hooks) yield [hook, rules]
  }

  #record(op: XtOp): void {
    this.#new.add(op.chain)
    switch (op.op) {
      case 'set-chain':
        this.#removed.delete(op.chain)
        this.#desired.set(op.chain, op.rules)
        break
      case 'remove-chain':
        this.#desired.delete(op.chain)
        this.#removed.add(op.chain)
        break
      case 'set-hook': {
        const old = this.#hooks.get(op.chain)
        const former = old === undefined ? [] : [...old.former, ...old.rules]
        this.#hooks.set(op.chain, { rules: op.rules, former })
        break
      }
    }
  }

  /** Marks the table as applied: drops removed and former content, except the chains that are kept. */
  #settle(kept: readonly XtKeptChain[]): void {
    this.#removed.clear()
    this.#new.clear()
    this.#prune.clear()
    for (const { chain } of kept) this.#prune.add(chain)
    for (const [hook, { rules }] of this.#hooks) this.#hooks.set(hook, { rules, former: [] })
    this.#left = this.kernel.info
  }

  #makePlan(): Plan {
    const present = this.kernel.chains
    const stale = new Set(
      [...present]
        .filter(([chain, rules]) => !this.kernel.isHook(chain) && this.#isStale(chain, rules.length === 0))
        .map(([chain]) => chain),
    )
    const kept = this.#findReferenced(stale)
    for (const chain of kept.keys()) {
      if (!this.#prune.has(`${chain}?`)) continue
      stale.delete(chain)
      kept.delete(chain)
    }
    const gone = [...stale].filter((chain) => !kept.has(chain))
    const next = new Map<string, readonly XtRule[]>()
    const changed: string[] = []
    const repaired: string[] = []
    for (const [chain, rules] of present) {
      if (this.kernel.isHook(chain) || (stale.has(chain) && !kept.has(chain))) continue
      const desired = kept.has(chain) ? [] : this.#desired.get(chain)
      if (desired !== undefined && !this.kernel.isSame(rules, desired)) {
        changed.push(chain)
        if (!kept.has(chain)) repaired.push(chain)
      }
      next.set(chain, desired ?? rules)
    }
    const missing = [...this.#desired.keys()].filter((chain) => !present.has(chain))
    for (const chain of missing) next.set(chain, this.#desired.get(chain) ?? [])
    const hooks = new Map<string, readonly XtRule[]>()
    for (const [chain, rules] of present) {
      if (!this.kernel.isHook(chain)) continue
      const after = this.#hookAfter(chain, rules, (target) => stale.has(target))
      hooks.set(chain, after)
      if (!this.kernel.isSame(rules, after)) changed.push(chain)
      const lasting = rules.filter((rule) => !stale.has(chainOf(rule) ?? ''))
      if (
        !this.kernel.isSame(
          lasting,
          this.#hookAfter(chain, lasting, () => false),
        )
      )
        repaired.push(chain)
    }
    changed.push(...gone)
    this.#checkJumps(next)
    return {
      chains: new Map([...hooks, ...next]),
      drift: { missing, changed },
      repairs: {
        missing: missing.filter((chain) => !this.#new.has(chain)),
        changed: repaired.filter((chain) => !this.#new.has(chain)),
      },
      kept: [...kept].map(([chain, by]) => ({ chain, by })),
      isDone: missing.length + changed.length === 0,
    }
  }

  #isStale(chain: string, isEmpty: boolean): boolean {
    if (this.#desired.has(chain)) return false
    return this.#removed.has(chain) || [...this.#prune].some((pattern) => matches(pattern, chain, isEmpty))
  }

  /** The chains to which a foreign chain jumps, each with that foreign chain. */
  #findReferenced(stale: ReadonlySet<string>): Map<string, string> {
    const kept = new Map<string, string>()
    for (const [by, rules] of this.kernel.chains) {
      if (this.kernel.isHook(by) || this.#desired.has(by) || stale.has(by)) continue
      for (const rule of rules) {
        const chain = chainOf(rule)
        if (chain !== undefined && stale.has(chain) && !kept.has(chain)) kept.set(chain, by)
      }
    }
    return kept
  }

  #hookAfter(hook: string, rules: readonly XtRule[], isGone: (chain: string) => boolean): readonly XtRule[] {
    const desired = this.#hooks.get(hook)
    const texts = new Set(
      [...(desired?.rules ?? []), ...(desired?.former ?? [])].map((rule) => this.kernel.text(rule)),
    )
    const isOurs = (rule: XtRule): boolean => {
      const target = chainOf(rule)
      if (target !== undefined && isGone(target)) return true
      if (desired === undefined) return false
      return (target !== undefined && this.#desired.has(target)) || texts.has(this.kernel.text(rule))
    }
    const ours = rules.filter(isOurs)
    if (this.kernel.isSame(ours, desired?.rules ?? [])) return rules
    return [...(desired?.rules ?? []), ...rules.filter((rule) => !isOurs(rule))]
  }

  #checkJumps(next: ReadonlyMap<string, readonly XtRule[]>): void {
    for (const [chain, rules] of this.#desiredRules()) {
      for (const rule of rules) {
        const target = chainOf(rule)
        if (target === undefined || next.has(target)) continue
        const object = `chain ${chain} jumps to ${target}, which does not exist`
        throw this.#refusal(ENOENT, 'change the table', object)
      }
    }
  }
}
