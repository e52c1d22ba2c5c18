import type { XtHook, XtOp, XtRule } from '../../kernel/index.js'

/** What one table has still to be told, and how many rules of ours it then has. */
export class PendingTable {
  /** undefined: the chain goes. */
  readonly #chains = new Map<string, readonly XtRule[] | undefined>()
  readonly #hooks = new Map<XtHook, readonly XtRule[]>()
  /** Rules of every chain and hook that is ours, by name. */
  readonly #sizes = new Map<string, number>()
  #rules = 0

  setChain(chain: string, rules: readonly XtRule[]): void {
    this.#chains.set(chain, rules)
    this.#resize(chain, rules.length)
  }

  removeChain(chain: string): void {
    this.#chains.set(chain, undefined)
    this.#resize(chain, undefined)
  }

  setHook(chain: XtHook, rules: readonly XtRule[]): void {
    this.#hooks.set(chain, rules)
    this.#resize(chain, rules.length)
  }

  /** Rules of ours in the table, once it was told all. */
  get rules(): number {
    return this.#rules
  }

  /** What came since the last call. */
  take(): readonly XtOp[] {
    const ops: XtOp[] = []
    for (const [chain, rules] of this.#chains)
      ops.push(rules === undefined ? { op: 'remove-chain', chain } : { op: 'set-chain', chain, rules })
    for (const [chain, rules] of this.#hooks) ops.push({ op: 'set-hook', chain, rules })
    this.#chains.clear()
    this.#hooks.clear()
    return ops
  }

  #resize(chain: string, size: number | undefined): void {
    this.#rules += (size ?? 0) - (this.#sizes.get(chain) ?? 0)
    if (size === undefined) this.#sizes.delete(chain)
    else this.#sizes.set(chain, size)
  }
}
