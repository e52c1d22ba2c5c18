// Applies transactions to the listing of a table of x_tables. Pure.
import type { IpFamily } from '../../address.js'
import { describeXtRule } from './describe.js'
import { jumpOf, type XtListedChain, type XtListing } from './listing.js'
import { DesiredTable } from './desired.js'
import { type XtHook, xtHooks, type XtKeptChain, type XtOp, type XtRule, type Xtables } from './xtables.js'

/** The operations of one `Xtables.apply`. */
export interface XtChange {
  readonly ops: readonly XtOp[]
  readonly prune: readonly string[]
}

/** Changes a listing as `Xtables.apply` changes the table. */
export class ListingEditor {
  readonly #family: IpFamily
  readonly #hooks: readonly XtHook[]
  readonly #desired: DesiredTable
  readonly #chains: Map<string, XtListedChain>
  #isChanged = false

  constructor(listing: XtListing, { family, table }: Pick<Xtables, 'family' | 'table'>) {
    this.#family = family
    this.#hooks = xtHooks[table]
    this.#desired = new DesiredTable(table)
    this.#chains = new Map(listing.map((chain) => [chain.chain, chain]))
  }

  /** The table after the changes so far. */
  get listing(): XtListing {
    return [...this.#chains.values()]
  }

  /** `isChanged`: the table was not as desired. `kept`: as in `XtOutcome`. */
  apply({ ops, prune }: XtChange): { readonly isChanged: boolean; readonly kept: readonly XtKeptChain[] } {
    this.#isChanged = false
    this.#desired.record(ops)
    this.#desired.prune(prune)
    for (const op of ops) if (op.op === 'set-chain') this.#put(op.chain, this.#textsOf(op.rules))
    const { gone, kept } = this.#unwanted()
    const abandoned = new Set([...gone, ...kept.map(({ chain }) => chain)])
    for (const hook of this.#hooks) this.#setHook(hook, abandoned)
    for (const { chain } of kept) this.#put(chain, [])
    for (const chain of gone) this.#isChanged = this.#chains.delete(chain) || this.#isChanged
    this.#desired.settle(kept)
    return { isChanged: this.#isChanged, kept }
  }

  #textsOf(rules: readonly XtRule[]): readonly string[] {
    return rules.map((rule) => describeXtRule(rule, this.#family))
  }

  #put(chain: string, rules: readonly string[], policy?: 'ACCEPT'): void {
    const present = this.#chains.get(chain)
    if (present !== undefined && isSame(present.rules, rules)) return
    this.#isChanged = true
    this.#chains.set(chain, { ...(policy === undefined ? {} : { policy }), ...present, chain, rules })
  }

  /** The chains that go, and those that cannot because a chain of another program jumps to them. */
  #unwanted(): { readonly gone: ReadonlySet<string>; readonly kept: readonly XtKeptChain[] } {
    const gone = new Set<string>()
    const shared = new Set<string>()
    const foreign: XtListedChain[] = []
    for (const listed of this.#chains.values()) {
      if (listed.policy !== undefined || this.#desired.chains.has(listed.chain)) continue
      const fate = this.#desired.fate(listed.chain)
      if (fate === 'if-unused') shared.add(listed.chain)
      if (fate === 'goes' || (fate === 'if-unused' && listed.rules.length === 0)) gone.add(listed.chain)
      else foreign.push(listed)
    }
    const kept: XtKeptChain[] = []
    for (const { chain: by, rules } of gone.size === 0 ? [] : foreign)
      for (const rule of rules) {
        const chain = jumpOf(rule)
        if (chain !== undefined && gone.delete(chain) && !shared.has(chain)) kept.push({ chain, by })
      }
    return { gone, kept }
  }

  #setHook(hook: XtHook, abandoned: ReadonlySet<string>): void {
    const desired = this.#desired.hooks.get(hook)
    if (desired === undefined && abandoned.size === 0) return
    const wanted = this.#textsOf(desired?.rules ?? [])
    const known = new Set([...wanted, ...this.#textsOf(desired?.former ?? [])])
    const isOurs = (rule: string): boolean => {
      const target = jumpOf(rule)
      if (target !== undefined && abandoned.has(target)) return true
      if (desired === undefined) return false
      return (target !== undefined && this.#desired.chains.has(target)) || known.has(rule)
    }
    const present = this.#chains.get(hook)?.rules
    if (present === undefined && wanted.length === 0) return
    const others = (present ?? []).filter((rule) => !isOurs(rule))
    if (!isSame((present ?? []).filter(isOurs), wanted)) this.#put(hook, [...wanted, ...others], 'ACCEPT')
  }
}

function isSame(texts: readonly string[], others: readonly string[]): boolean {
  return texts.length === others.length && texts.every((text, index) => text === others[index])
}
