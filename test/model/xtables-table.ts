// One legacy table of the model's network namespace, and the changes that other programs make to it.
import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import { describeXtRule } from '../../src/kernel/xtables/describe.js'
import type { XtListing } from '../../src/kernel/xtables/listing.js'
import { xtHooks, type XtRule, type XtTableName } from '../../src/kernel/xtables/xtables.js'
import { entryBytes, closingBytes, headBytes, ruleBytes } from './xtables-size.js'

const { EBUSY, EEXIST, ENOENT, ENOTEMPTY } = constants.errno

/** Chains with their rules, in the kernel's order. */
export type XtChains = ReadonlyMap<string, readonly XtRule[]>

/** The chain to which a rule jumps. */
export function chainOf(rule: XtRule): string | undefined {
  return rule.target.kind === 'jump' || rule.target.kind === 'goto' ? rule.target.chain : undefined
}

/** The kernel's table. The model passes no packets. */
export class ModelXtTable {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly #hooks: readonly string[]
  #chains: Map<string, readonly XtRule[]>
  /** Number of whole-table replacements by all programs. */
  writes = 0
  /** Policies of built-in chains; absent: ACCEPT. Tests set them. */
  readonly policies = new Map<string, 'ACCEPT' | 'DROP'>()
  /** Packets that matched each rule of a chain, by chain name; absent: none. Tests set them. */
  readonly counted = new Map<string, readonly number[]>()
  readonly #texts = new WeakMap<XtRule, string>()
  readonly #sizes = new WeakMap<readonly XtRule[], number>()

  constructor(family: IpFamily, table: XtTableName) {
    this.family = family
    this.table = table
    this.#hooks = xtHooks[table]
    this.#chains = new Map(this.#hooks.map((hook) => [hook, []]))
  }

  /** Built-in chains first, in the order of the hooks. */
  get chains(): XtChains {
    return this.#chains
  }

  /** `Kernel.listTable`. */
  listing(): XtListing {
    return [...this.#chains].map(([chain, rules]) => ({
      chain,
      ...(this.isHook(chain) ? { policy: this.policies.get(chain) ?? 'ACCEPT' } : {}),
      rules: rules.map((rule) => describeXtRule(rule, this.family)),
    }))
  }

  isHook(chain: string): boolean {
    return this.#hooks.includes(chain)
  }

  get entries(): number {
    // A built-in chain has one extra entry (policy), a user chain two (head and end). One entry ends the table.
    let entries = 1
    for (const [chain, rules] of this.#chains) entries += rules.length + (this.isHook(chain) ? 1 : 2)
    return entries
  }

  get bytes(): number {
    return this.#bytesOf(this.#chains.keys()) + headBytes(this.family)
  }

  /** The kernel's info about the table without its rules: number of entries, size, offsets of the built-in chains. */
  get info(): string {
    return [this.entries, this.bytes, ...this.#hooks.map((hook) => this.#bytesOf([hook]))].join(' ')
  }

  /** Equal rules have equal text. */
  text(rule: XtRule): string {
    const known = this.#texts.get(rule)
    if (known !== undefined) return known
    const text = describeXtRule(rule, this.family)
    this.#texts.set(rule, text)
    return text
  }

  isSame(some: readonly XtRule[], others: readonly XtRule[]): boolean {
    if (some === others) return true
    return (
      some.length === others.length &&
      some.every((rule, i) => {
        const other = others[i]
        return other !== undefined && (rule === other || this.text(rule) === this.text(other))
      })
    )
  }

  /** The table as iptables-save prints it, without counters. */
  save(): string {
    const lines = [`*${this.table}`]
    for (const chain of this.#chains.keys())
      lines.push(`:${chain} ${this.isHook(chain) ? (this.policies.get(chain) ?? 'ACCEPT') : '-'}`)
    for (const [chain, rules] of this.#chains)
      for (const rule of rules) lines.push(`-A ${chain} ${this.text(rule)}`)
    return [...lines, 'COMMIT', ''].join('\n')
  }

  /** Replaces all chains of the table. The new chains include the built-in ones. */
  replace(chains: XtChains): void {
    this.#chains = new Map(chains)
    this.writes++
  }

  // Changes by other programs: iptables -N, -A, -I, -D, -F, -X.

  addChain(chain: string): void {
    if (this.#chains.has(chain)) throw this.#refusal('add chain', EEXIST, chain)
    this.#set(chain, [])
  }

  append(chain: string, ...rules: readonly XtRule[]): void {
    this.#set(chain, [...this.#rulesOf('append', chain), ...rules])
  }

  prepend(chain: string, ...rules: readonly XtRule[]): void {
    this.#set(chain, [...rules, ...this.#rulesOf('prepend', chain)])
  }

  /** `index` counts from 0. */
  deleteRule(chain: string, index: number): void {
    const rules = this.#rulesOf('delete rule', chain)
    if (index >= rules.length) throw this.#refusal('delete rule', ENOENT, `${index} of ${chain}`)
    this.#set(chain, rules.toSpliced(index, 1))
  }

  /** Flushes the chain; without a name, all chains. */
  flush(chain?: string): void {
    if (chain !== undefined) this.#rulesOf('flush', chain)
    const flushed = chain === undefined ? [...this.#chains.keys()] : [chain]
    for (const name of flushed) this.#set(name, [])
  }

  /** Removes an empty chain to which no rule jumps. */
  removeChain(chain: string): void {
    if (this.#rulesOf('remove chain', chain).length > 0) throw this.#refusal('remove chain', ENOTEMPTY, chain)
    for (const rules of this.#chains.values())
      if (rules.some((rule) => chainOf(rule) === chain)) throw this.#refusal('remove chain', EBUSY, chain)
    this.#chains.delete(chain)
    this.writes++
  }

  #set(chain: string, rules: readonly XtRule[]): void {
    const missing = rules.map(chainOf).find((target) => target !== undefined && !this.#chains.has(target))
    if (missing !== undefined) throw this.#refusal('jump to', ENOENT, missing)
    this.#chains.set(chain, rules)
    this.writes++
  }

  #rulesOf(operation: string, chain: string): readonly XtRule[] {
    const rules = this.#chains.get(chain)
    if (rules === undefined) throw this.#refusal(operation, ENOENT, chain)
    return rules
  }

  #bytesOf(chains: Iterable<string>): number {
    let bytes = 0
    for (const chain of chains) {
      const ends = closingBytes(this.family) + (this.isHook(chain) ? 0 : headBytes(this.family))
      bytes += ends + this.#ruleBytes(this.#chains.get(chain) ?? [])
    }
    return bytes
  }

  #ruleBytes(rules: readonly XtRule[]): number {
    const known = this.#sizes.get(rules)
    if (known !== undefined) return known
    const bytes = rules.reduce((sum, rule) => sum + entryBytes(this.family) + ruleBytes(rule, this.family), 0)
    this.#sizes.set(rules, bytes)
    return bytes
  }

  #refusal(operation: string, errno: number, object: string): KernelError {
    return new KernelError({ errno, subsystem: 'xtables', operation, family: this.family, object })
  }
}

/** All tables of the model's network namespace. */
export class ModelXtNamespace {
  readonly #tables = new Map<string, ModelXtTable>()
  /** Number of times that another program has released the lock of the tables. Tests set it. */
  unlocks = 0

  table(family: IpFamily, table: XtTableName): ModelXtTable {
    const key = `${family} ${table}`
    const known = this.#tables.get(key)
    if (known !== undefined) return known
    const made = new ModelXtTable(family, table)
    this.#tables.set(key, made)
    return made
  }

  /** Tables that a caller has requested. */
  active(family: IpFamily): readonly XtTableName[] {
    return [...this.#tables.values()].filter((table) => table.family === family).map(({ table }) => table)
  }
}
