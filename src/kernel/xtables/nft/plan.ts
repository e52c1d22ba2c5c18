// Compares a table with its desired content, and makes the transaction that changes it. Pure.
import type { NfExpressionOf } from '../../nftables/expressions.js'
import type { NfOp, NfRule, NfRuleState, NfTransaction } from '../../nftables/nftables.js'
import type { XtPlace } from '../encode.js'
import { type XtDrift, type XtHook, xtHooks, type XtRule } from '../xtables.js'
import { baseChain } from './base-chains.js'
import { chainOf } from './decode.js'
import type { DesiredTable } from '../desired.js'
import type { TableImage } from './image.js'
import type { RuleCodec, WrittenRule } from './rules.js'

/** A desired rule: its chain, and its index there. */
export interface RulePlace {
  readonly chain: string
  readonly rule: number
}

/** A transaction, and the differences that it repairs. */
export interface TablePlan {
  /** Empty: the table is as desired. */
  readonly transaction: NfTransaction
  /** The desired rule of an operation, by the operation's index. */
  readonly places: ReadonlyMap<number, RulePlace>
  readonly drift: XtDrift
  /** Differences that other programs made: no operation has named these chains and hooks since the table was as desired. */
  readonly repairs: XtDrift
  /** The first desired jump to a chain that does not exist. */
  readonly badJump: { readonly chain: string; readonly target: string } | undefined
}

/** Makes the plan for a table. */
export class TablePlanner {
  readonly #place: XtPlace
  readonly #desired: DesiredTable
  readonly #image: TableImage
  readonly #codec: RuleCodec
  /** Chains to which no rule of a base chain may jump any more. */
  readonly #abandoned: ReadonlySet<string>
  // The transaction in its order: rules jump only to chains that exist, and a chain is deleted after the jumps to it.
  readonly #created: NfOp[] = []
  readonly #cleared: NfOp[] = []
  readonly #added: { readonly op: NfOp; readonly place: RulePlace }[] = []
  readonly #deleted: NfOp[] = []
  readonly #missing: string[] = []
  readonly #changed: string[] = []
  readonly #repairs = { missing: new Array<string>(), changed: new Array<string>() }

  constructor(place: XtPlace, desired: DesiredTable, image: TableImage, codec: RuleCodec) {
    this.#place = place
    this.#desired = desired
    this.#image = image
    this.#codec = codec
    this.#abandoned = new Set([...image.gone, ...image.kept.map(({ chain }) => chain)])
  }

  plan(): TablePlan {
    for (const [chain, rules] of this.#desired.chains) this.#planChain(chain, rules)
    for (const hook of xtHooks[this.#place.table]) this.#planHook(hook)
    this.#planLeftovers()
    const hasTable = this.#image.chains.size > 0 || this.#created.length === 0
    const table: NfOp[] = hasTable ? [] : [{ op: 'add-table', table: this.#place }]
    const before = [...table, ...this.#created, ...this.#cleared]
    return {
      transaction: [...before, ...this.#added.map(({ op }) => op), ...this.#deleted],
      places: new Map(this.#added.map(({ place }, index) => [before.length + index, place])),
      drift: { missing: this.#missing, changed: this.#changed },
      repairs: this.#repairs,
      badJump: this.#badJump(),
    }
  }

  #planChain(chain: string, rules: readonly XtRule[]): void {
    const encoded = rules.map((rule) => this.#codec.encode(rule))
    const found = this.#image.rules.get(chain)
    if (found === undefined) {
      this.#missing.push(chain)
      if (!this.#desired.isNew(chain)) this.#repairs.missing.push(chain)
      this.#created.push({ op: 'add-chain', chain: { ...this.#place, chain } })
      this.#insert(chain, encoded, [])
      return
    }
    // The chain of all Services of kube-proxy has many rules: they are not decoded.
    if (encoded.length === 0) {
      if (found.length === 0) return
      this.#flush(chain)
      this.#noteRepair(chain)
      return
    }
    const texts = found.map((rule) => this.#codec.textOf(rule))
    if (isSame(texts, encoded)) return
    this.#changed.push(chain)
    this.#noteRepair(chain)
    const stays = align(texts, encoded)
    const unwanted = found.filter((_, index) => !stays.includes(index))
    if (unwanted.length === found.length && found.length > 0)
      this.#cleared.push({ op: 'flush-chain', chain: { ...this.#place, chain } })
    else this.#deleteRules(chain, unwanted)
    const withCounts = this.#keepCounts(encoded, unwanted)
    this.#insert(
      chain,
      withCounts,
      stays.map((index) => (index === undefined ? undefined : found[index])),
    )
  }

  #planHook(hook: XtHook): void {
    const desired = this.#desired.hooks.get(hook)
    const encoded = (desired?.rules ?? []).map((rule) => this.#codec.encode(rule))
    const found = this.#image.rules.get(hook)
    if (found === undefined) {
      if (encoded.length === 0) return
      this.#changed.push(hook)
      this.#noteRepair(hook)
      const chain = { ...this.#place, chain: hook, hook: baseChain(this.#place.table, hook) }
      this.#created.push({ op: 'add-chain', chain })
      this.#insert(hook, encoded, [])
      return
    }
    const former = (desired?.former ?? []).map((rule) => this.#codec.encode(rule))
    const known = desired === undefined ? undefined : new Set([...encoded, ...former].map(({ text }) => text))
    const ours = found.filter((rule) => this.#isOurs(rule, known))
    const texts = ours.map((rule) => this.#codec.textOf(rule))
    if (isSame(texts, encoded)) return
    this.#changed.push(hook)
    const lasting = texts.filter((_, index) => !this.#isAbandoned(ours[index]))
    if (!isSame(lasting, encoded)) this.#noteRepair(hook)
    this.#deleteRules(hook, ours)
    const head = found.find((rule) => !ours.includes(rule))
    this.#insert(hook, this.#keepCounts(encoded, ours), [...encoded.map(() => undefined), head])
  }

  /** A rule of a base chain is Viaduct's if it jumps to a chain of Viaduct or was set for the hook. `known`: the hook was set. */
  #isOurs(rule: NfRuleState, known: ReadonlySet<string> | undefined): boolean {
    if (this.#isAbandoned(rule)) return true
    if (known === undefined) return false
    const target = chainOf(rule.expressions)
    if (target !== undefined && this.#desired.chains.has(target)) return true
    const text = this.#codec.textOf(rule)
    return text !== undefined && known.has(text)
  }

  /** Whether the rule jumps to a chain that is removed or kept without rules. */
  #isAbandoned(rule: NfRuleState | undefined): boolean {
    const target = rule && chainOf(rule.expressions)
    return target !== undefined && this.#abandoned.has(target)
  }

  #noteRepair(chain: string): void {
    if (!this.#desired.isNew(chain)) this.#repairs.changed.push(chain)
  }

  #planLeftovers(): void {
    for (const { chain } of this.#image.kept) {
      if (this.#image.rules.get(chain)?.length !== 0) this.#flush(chain)
    }
    for (const chain of this.#image.gone) {
      this.#flush(chain)
      this.#deleted.push({ op: 'delete-chain', chain: { ...this.#place, chain } })
    }
  }

  #flush(chain: string): void {
    this.#changed.push(chain)
    this.#cleared.push({ op: 'flush-chain', chain: { ...this.#place, chain } })
  }

  #deleteRules(chain: string, rules: readonly NfRuleState[]): void {
    for (const { handle } of rules)
      this.#cleared.push({ op: 'delete-rule', rule: { ...this.#place, chain }, handle })
  }

  /**
   * Adds the rules that the chain lacks. `stays`: by index of a desired rule, the equal rule of the chain; a further entry is the rule of
   * another program that follows.
   */
  #insert(chain: string, rules: readonly WrittenRule[], stays: readonly (NfRuleState | undefined)[]): void {
    for (const [index, { text: _, ...written }] of rules.entries()) {
      if (stays[index] !== undefined) continue
      const before = stays.slice(index).find((rule) => rule !== undefined)?.handle
      const rule: NfRule = { ...this.#place, chain, ...written }
      const op: NfOp = before === undefined ? { op: 'add-rule', rule } : { op: 'insert-rule', rule, before }
      this.#added.push({ op, place: { chain, rule: index } })
    }
  }

  /** The rules, with the counts of equal rules that are deleted. */
  #keepCounts(rules: readonly WrittenRule[], deleted: readonly NfRuleState[]): readonly WrittenRule[] {
    const left = deleted.map((rule) => ({ text: this.#codec.textOf(rule), counter: counterOf(rule) }))
    return rules.map((rule) => {
      const index = left.findIndex(({ text }) => text === rule.text)
      const counter = left[index]?.counter
      if (counter === undefined) return rule
      left.splice(index, 1)
      const expressions = rule.expressions.map((expression) =>
        expression.kind === 'counter' ? counter : expression,
      )
      return { ...rule, expressions }
    })
  }

  #badJump(): TablePlan['badJump'] {
    for (const [chain, rules] of this.#desired.rules()) {
      for (const { target } of rules) {
        if (target.kind !== 'jump' && target.kind !== 'goto') continue
        const { chains, gone } = this.#image
        const exists = chains.has(target.chain) && !gone.has(target.chain)
        if (!exists && !this.#desired.chains.has(target.chain)) return { chain, target: target.chain }
      }
    }
    return undefined
  }
}

function isSame(texts: readonly (string | undefined)[], rules: readonly WrittenRule[]): boolean {
  return texts.length === rules.length && rules.every(({ text }, index) => text === texts[index])
}

/** For each rule the index of an equal text, in ascending order; undefined: a new rule. */
function align(
  texts: readonly (string | undefined)[],
  rules: readonly WrittenRule[],
): readonly (number | undefined)[] {
  let next = 0
  return rules.map(({ text }) => {
    const index = texts.indexOf(text, next)
    if (index < 0) return undefined
    next = index + 1
    return index
  })
}

function counterOf({ expressions }: NfRuleState): NfExpressionOf<'counter'> | undefined {
  return expressions.find((expression) => expression.kind === 'counter')
}
