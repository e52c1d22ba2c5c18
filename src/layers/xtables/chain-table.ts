import { createHash } from 'node:crypto'
import { KernelObject, ObjectTable } from '../objects/index.js'
import type { XtHook, XtOp, XtRule } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'

/**
 * A chain of ours. `acknowledged`: number of its rules that `ChainTable.take` handed over; undefined: none was handed over, or the
 * chain is removed. It is never a leftover: `prune` of a write removes the chains of a former owner.
 */
export class OwnChain extends KernelObject<string, number | undefined> {
  /** The route that claims the chain; undefined: it belongs to the skeleton or a dispatch tree, or to none. */
  owner: ServicePortKey | undefined
  /** Digest of its rules; undefined: none was made for these rules. */
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
 * Our chains and hooks in one x_tables table, and the operations that the table does not have yet. The addon keeps the operations
 * until the kernel takes them, so this class keeps no rules.
 */
export class ChainTable {
  readonly #chains = new ObjectTable<string, OwnChain>()
  readonly #hooks = new Map<XtHook, readonly XtRule[]>()
  readonly #hookSizes = new Map<XtHook, number>()
  #claimed = 0
  #rules = 0

  /** The chain if a route has claimed it; undefined: no route has. */
  claimed(chain: string): OwnChain | undefined {
    const known = this.#chains.get(chain)
    return known?.owner === undefined ? undefined : known
  }

  /** Number of chains that routes claim. */
  get claimedCount(): number {
    return this.#claimed
  }

  /** The chains that the table has. */
  *names(): Generator<string> {
    for (const { id, isAcknowledged } of this.#chains.values()) if (isAcknowledged) yield id
  }

  /**
   * Sets the rules of a route's chain. Unchanged rules are not handed over again, except at the second claim: the first rules get no
   * digest, as a start claims every chain once and needs none.
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

  /** Sets the rules of a chain that no route claims, unless the chain already has them. */
  setChanged(chain: string, rules: readonly XtRule[]): void {
    const digest = digestOf(rules)
    const known = this.#chains.get(chain)
    if (known?.size === undefined || known.digest !== digest) this.set(chain, rules).digest = digest
  }

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

  /** Number of our rules in the table, once it has all operations. */
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
