import {
  type XtHook,
  type XtKeptChain,
  type XtOp,
  xtHooks,
  type XtRule,
  type XtTableName,
} from './xtables.js'

/** Viaduct's rules in a base chain. */
export interface DesiredHook {
  readonly rules: readonly XtRule[]
  /** Earlier rules, which the table may still have. */
  readonly former: readonly XtRule[]
}

/** Whether a pattern of `XtApplyOptions.prune` matches the chain. */
function isMatch(pattern: string, name: string): boolean {
  const stem = pattern.slice(0, -1)
  return pattern.endsWith('*') ? name.startsWith(stem) : name === pattern
}

/** The desired content of a table. */
export class DesiredTable {
  readonly chains = new Map<string, readonly XtRule[]>()
  readonly hooks = new Map<XtHook, DesiredHook>()
  /** Chains that the kernel did not delete: an element of a map of another program jumps to them. */
  readonly held = new Set<string>()
  readonly #hookNames: readonly XtHook[]
  readonly #removed = new Set<string>()
  /** Chains and hooks that an operation has named since `settle`. */
  readonly #new = new Set<string>()
  /** Patterns of this apply and of earlier failed ones, and kept chains. */
  readonly #prune = new Set<string>()

  constructor(table: XtTableName) {
    this.#hookNames = xtHooks[table]
  }

  /** Whether the name is that of a base chain of the table. */
  isHook(chain: string): chain is XtHook {
    return this.#hookNames.some((hook) => hook === chain)
  }

  record(ops: readonly XtOp[]): void {
    for (const op of ops) this.#recordOne(op)
  }

  prune(patterns: readonly string[]): void {
    for (const pattern of patterns) this.#prune.add(pattern)
  }

  /** Chains and hooks with their rules. */
  *rules(): Iterable<readonly [chain: string, rules: readonly XtRule[]]> {
    yield* this.chains
    for (const [hook, { rules }] of this.hooks) yield [hook, rules]
  }

  /** Whether an operation has named the chain or hook since the table was last as desired. */
  isNew(chain: string): boolean {
    return this.#new.has(chain)
  }

  /** Whether the chain should be removed. `if-unused`: only if it has no rules and no foreign chain jumps to it. */
  fate(chain: string): 'stays' | 'goes' | 'if-unused' {
    if (this.chains.has(chain)) return 'stays'
    if (this.#removed.has(chain)) return 'goes'
    for (const pattern of this.#prune) if (isMatch(pattern, chain)) return 'goes'
    return this.#prune.has(`${chain}?`) ? 'if-unused' : 'stays'
  }

  /** The table is as desired: forgets what it no longer has, except the chains that are kept. */
  settle(kept: readonly XtKeptChain[]): void {
    this.#removed.clear()
    this.#new.clear()
    this.#prune.clear()
    for (const { chain } of kept) this.#prune.add(chain)
    for (const [hook, { rules }] of this.hooks) this.hooks.set(hook, { rules, former: [] })
  }

  #recordOne(op: XtOp): void {
    this.#new.add(op.chain)
    switch (op.op) {
      case 'set-chain':
        this.#removed.delete(op.chain)
        this.chains.set(op.chain, op.rules)
        break
      case 'remove-chain':
        this.chains.delete(op.chain)
        this.#removed.add(op.chain)
        break
      case 'set-hook': {
        const old = this.hooks.get(op.chain)
        const former = old === undefined ? [] : [...old.former, ...old.rules]
        this.hooks.set(op.chain, { rules: op.rules, former })
        break
      }
    }
  }
}
