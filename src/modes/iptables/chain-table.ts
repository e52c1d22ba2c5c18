import { createHash } from 'node:crypto'
import { KernelObject, ObjectTable } from '../../engine/index.js'
import type { XtHook, XtOp, XtRule } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'

/** A chain of ours. `acknowledged`: number of its rules as handed over by `ChainTable.take`; undefined: it was not, or is removed. It is never a leftover: `prune` of a write removes chains of a former owner. */
export class OwnChain extends KernelObject<string, number | undefined> {
  /** The route that claims it; undefined: the skeleton, a dispatch tree, or none. */
  owner: ServicePortKey | undefined
  /** Digest of its rules; undefined when it was not needed yet. */
  digest: string | undefined
  /** Number of desired rules; undefined: the chain is to be removed. */
  size: number | undefined
  /** Desired rules until `take` hands them over. */
  pending: readonly XtRule[] = []

  constructor(name: string) {
    super(name, undefined)
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== undefined
  }

  get isUnused(): boolean {
    return this.size === undefined && !this.isAcknowledged
  }
}

/**
 * Our chains and hooks in one x_tables table, and the operations that it has not got yet. The addon keeps what it was handed until the
 * kernel takes it, so that rules are not kept here.
 */
export class ChainTable {
  readonly #chains = new ObjectTable<string, OwnChain>()
  readonly #hooks = new Map<XtHook, readonly XtRule[]>()
  readonly #hookSizes = new Map<XtHook, number>()
  #claimed = 0
  #rules = 0

  /** The chain that a route has claimed; undefined: none has. */
  claimed(chain: string): OwnChain | undefined {
    const known = this.#chains.get(chain)
    return known?.owner === undefined ? undefined : known
  }

  /** Number of chains that routes claim. */
  get claimedCount(): number {
    return this.#claimed
  }

  /**
   * Sets the rules of a route's chain. Those of a chain that the route has already are not handed over again. A digest of the first
   * rules is not made: a start, which claims every chain once, needs none.
   */
  claim(chain: string, owner: ServicePortKey, rules: readonly XtRule[]): OwnChain {
    const known = this.claimed(chain)
    const digest = known === undefined ? undefined : digestOf(rules)
    if (known !== undefined && known.digest === digest) return known
    const own = this.set(chain, rules)
    if (known === undefined) this.#claimed++
    own.owner = owner
    own.digest = digest
    return own
  }

  /** No route claims the chain any more. It stays without rules, or is removed. */
  release(own: OwnChain, { isKept }: { readonly isKept: boolean }): void {
    own.owner = undefined
    own.digest = undefined
    this.#claimed--
    if (isKept) this.set(own.id, [])
    else this.remove(own.id)
  }

  /** Sets the rules of a chain that no route claims, unless it has the same. */
  setChanged(chain: string, rules: readonly XtRule[]): void {
    const digest = digestOf(rules)
    const known = this.#chains.get(chain)
    if (known?.size === undefined || known.digest !== digest) this.set(chain, rules).digest = digest
  }

  /** Sets the rules of a chain. */
  set(chain: string, rules: readonly XtRule[]): OwnChain {
    const own = this.#chains.get(chain) ?? this.#chains.add(new OwnChain(chain))
    own.pending = rules
    this.#resize(own, rules.length)
    return own
  }

  remove(chain: string): void {
    const own = this.#chains.get(chain) ?? this.#chains.add(new OwnChain(chain))
    own.pending = []
    this.#resize(own, undefined)
  }

  setHook(chain: XtHook, rules: readonly XtRule[]): void {
    this.#hooks.set(chain, rules)
    this.#rules += rules.length - (this.#hookSizes.get(chain) ?? 0)
    this.#hookSizes.set(chain, rules.length)
  }

  /** Number of rules of ours in the table, once it has all that was set. */
  get rules(): number {
    return this.#rules
  }

  /** The operations since the last call. */
  take(): readonly XtOp[] {
    const ops: XtOp[] = []
    for (const own of this.#chains.takeDirty()) {
      const { id, pending, size } = own
      ops.push(
        size === undefined
          ? { op: 'remove-chain', chain: id }
          : { op: 'set-chain', chain: id, rules: pending },
      )
      own.pending = []
      own.acknowledged = size
      this.#chains.settle(own)
    }
    for (const [chain, rules] of this.#hooks) ops.push({ op: 'set-hook', chain, rules })
    this.#hooks.clear()
    return ops
  }

  #resize(own: OwnChain, size: number | undefined): void {
    this.#rules += (size ?? 0) - (own.size ?? 0)
    own.size = size
    this.#chains.markDirty(own)
  }
}

function digestOf(rules: readonly XtRule[]): string {
  return createHash('sha256').update(JSON.stringify(rules)).digest('base64')
}
