// The sets, chains and rules that the kernel has, against those that the elements in use need.
import {
  isSameRule,
  isUsableSet,
  type NfChain,
  type NfChainState,
  type NfHook,
  type NfOp,
  type NfRule,
  type NfRuleState,
  type NfSet,
  type NfSetState,
  type NfTableState,
} from '../../../kernel/index.js'
import { parseOwnChainName } from '../compile/own-chains.js'
import { clientSet, type NftSchema } from '../compile/schema.js'
import type { Structure, StructureChain } from '../compile/structure.js'
import { occasionalSet } from './static-sets.js'

/** A chain as the kernel has it. */
interface KnownChain {
  readonly hook: NfHook | undefined
  /** undefined: other rules than those that we want. */
  readonly rules: readonly NfRule[] | undefined
  /** The other rules. They may be those that we want after a change, which another agent wrote before us. */
  readonly found?: readonly NfRuleState[]
}

/** The operations that bring the structure to the kernel, around the elements of a transaction. */
export interface StructureOps {
  /** New sets and the rules of empty chains, to which nothing leads yet: any number of transactions may bring them, in this order. */
  readonly early: readonly NfOp[]
  /** Before the elements that need them: chains that lead to the new ones. */
  readonly first: readonly NfOp[]
  /** After all elements: what makes them serve. */
  readonly last: readonly NfOp[]
}

/** Differences that a look found, by name. */
export interface StructureDrift {
  readonly missingSets: readonly string[]
  readonly missingChains: readonly string[]
  readonly changedChains: readonly string[]
}

/** Objects of the table that the structure does not have. */
export interface UnknownObjects {
  readonly sets: readonly string[]
  readonly baseChains: readonly string[]
  /** Those that are no base chains. */
  readonly chains: readonly string[]
  /** kube-proxy's nftables mode has some; Viaduct has none. */
  readonly counters: readonly string[]
}

/** The objects of the table that a reading found; the rules follow with `readRules`. */
export interface ReadObjects {
  readonly table: NfTableState | undefined
  readonly sets: readonly NfSetState[]
  readonly chains: readonly NfChainState[]
  readonly counters: readonly string[]
}

/** The part of the structure that the kernel lacks or has otherwise, and what the kernel has by it. */
interface Lacking {
  readonly sets: readonly NfSet[]
  readonly chains: readonly StructureChain[]
  readonly isServing: boolean
}

export class StructureState {
  readonly #schema: NftSchema
  #wanted: Structure | undefined
  /** By name. */
  #wantedChains: ReadonlyMap<string, StructureChain> = new Map()
  #wantedSets: ReadonlyMap<string, NfSet> = new Map()
  #isTableKnown = false
  #isUnusable = false
  /** Sets of the table that the kernel has. */
  readonly #sets = new Set<string>()
  readonly #chains = new Map<string, KnownChain>()
  /** Named counters of another owner. */
  readonly #counters = new Set<string>()
  /** The parts that the kernel lacks; undefined: something changed since they were found. Most writes change elements alone. */
  #lacking: Lacking | undefined

  constructor(schema: NftSchema) {
    this.#schema = schema
  }

  /** Sets, chains and rules for the elements in use. Compares the rules of all chains, so that `plan` need not. */
  set wanted(wanted: Structure) {
    this.#wanted = wanted
    this.#wantedChains = new Map(wanted.chains.map((each) => [each.chain.chain, each]))
    this.#wantedSets = new Map(wanted.sets.map((set) => [set.set, set]))
    this.#lacking = undefined
    for (const { chain, rules } of wanted.chains) {
      const known = this.#chains.get(chain.chain)
      if (known === undefined) continue
      const isSame =
        known.rules === undefined
          ? known.found !== undefined &&
            isSameHook(chain.hook, known.hook) &&
            areSameRules(rules, known.found)
          : areSameRules(rules, known.rules)
      if (isSame) this.#chains.set(chain.chain, { hook: known.hook, rules })
    }
  }

  get sets(): readonly NfSet[] {
    return this.#wanted?.sets ?? []
  }

  get chains(): readonly StructureChain[] {
    return this.#wanted?.chains ?? []
  }

  /**
   * The table is made again: a set has a name of ours and another type, or the table has the flag dormant, so that no packet enters it.
   * The kernel adds no base chain in the transaction that clears the flag.
   */
  get isUnusable(): boolean {
    return this.#isUnusable
  }

  /** Packets may enter the table: a chain that the kernel has is a base chain. */
  get isServing(): boolean {
    return this.#findLacking().isServing
  }

  /** The kernel has the set. */
  hasSet({ set }: { readonly set: string }): boolean {
    return this.#sets.has(set)
  }

  /**
   * Chains of our names have rules that we did not write: another owner's, which serve now, or ours of an older build or for other
   * settings. The base chains alone do not tell: kube-proxy's are equal.
   */
  get isForeign(): boolean {
    if (this.#isUnusable) return true
    return this.#findLacking().chains.some(({ chain }) => {
      const known = this.#chains.get(chain.chain)
      return known !== undefined && known.rules === undefined
    })
  }

  /**
   * The operations from the kernel's structure to the wanted one. A chain that another owner's rules use is rewritten at the end;
   * base chains that do not exist yet come at the end as well.
   */
  plan({ isForeign }: { readonly isForeign: boolean }): StructureOps {
    if (this.#wanted === undefined) return { early: [], first: [], last: [] }
    const { table } = this.#wanted
    const { sets, chains: changed } = this.#findLacking()
    const early: NfOp[] = []
    const first: NfOp[] = []
    const last: NfOp[] = []
    if (!this.#isTableKnown) early.push({ op: 'add-table', table })
    for (const set of sets) early.push({ op: 'add-set', set })
    const isLast = ({ chain }: StructureChain): boolean =>
      chain.hook !== undefined || (isForeign && this.#chains.has(chain.chain))
    // Also where a transaction after that of the chain was refused.
    const isEmpty = ({ chain }: StructureChain): boolean =>
      (this.#chains.get(chain.chain) ?? { rules: [] }).rules?.length === 0
    const soon = changed.filter((chain) => !isLast(chain))
    const late = changed.filter(isLast)
    for (const { chain } of soon) early.push(...this.#makeChain(chain))
    for (const { chain } of late) last.push(...this.#makeChain(chain))
    for (const chain of soon) (isEmpty(chain) ? early : first).push(...this.#rulesOf(chain))
    for (const chain of late) last.push(...this.#rulesOf(chain))
    if (!this.#isUnusable) return { early, first, last }
    // The former table serves until then.
    return { early: [], first: [{ op: 'delete-table', table }, ...early, ...first], last }
  }

  /** The kernel took these operations of `plan`. */
  confirm(ops: readonly NfOp[]): void {
    if (ops.length === 0) return
    this.#lacking = undefined
    for (const op of ops) {
      if (op.op === 'delete-table') this.#isUnusable = false
      else if (op.op === 'add-table') this.#isTableKnown = true
      else if (op.op === 'add-set') this.#sets.add(op.set.set)
      else if (op.op === 'delete-set') this.#sets.delete(op.set.set)
      else if (op.op === 'delete-chain') this.#chains.delete(op.chain.chain)
      else if (op.op === 'delete-counter') this.#counters.delete(op.counter.counter)
      else if (op.op === 'add-chain' || op.op === 'flush-chain') this.#confirmRules(op.chain.chain, [])
      else if (op.op === 'add-rule') {
        const { chain } = op.rule
        this.#confirmRules(chain, [...(this.#chains.get(chain)?.rules ?? []), op.rule])
      }
    }
  }

  /** The rules of a chain may come in a later transaction than the chain. */
  #confirmRules(name: string, rules: readonly NfRule[]): void {
    const wanted = this.#wantedChains.get(name)
    const hook = wanted?.chain.hook ?? this.#chains.get(name)?.hook
    const isWhole = wanted?.rules.length === rules.length
    this.#chains.set(name, { hook, rules: isWhole ? wanted.rules : rules })
  }

  /** The kernel does not have the object of an operation that empties or deletes it. */
  noteAbsent(op: NfOp): void {
    this.#lacking = undefined
    if (op.op === 'flush-chain' || op.op === 'delete-chain') this.#chains.delete(op.chain.chain)
    else this.confirm([op])
  }

  get hasUnknown(): boolean {
    return Object.values(this.unknown).some((names: readonly string[]) => names.length > 0)
  }

  /** Objects that the structure does not have. */
  get unknown(): UnknownObjects {
    const chains = [...this.#chains].filter(([name]) => !this.#wantedChains.has(name))
    return {
      sets: [...this.#sets].filter((set) => !this.#wantedSets.has(set)),
      baseChains: chains.filter(([, { hook }]) => hook !== undefined).map(([name]) => name),
      chains: chains.filter(([, { hook }]) => hook === undefined).map(([name]) => name),
      counters: [...this.#counters],
    }
  }

  /** Takes in a reading of the table. Returns what disappeared. */
  readObjects({ table, sets, chains, counters }: ReadObjects): Omit<StructureDrift, 'changedChains'> {
    this.#lacking = undefined
    const hasOtherType = sets.some(({ set, attributes }) => {
      const wanted = this.#wantedSets.get(set) ?? occasionalSet(this.#schema, set)
      return wanted !== undefined && !isUsableSet(wanted, attributes)
    })
    this.#isUnusable = hasOtherType || table?.flags?.includes('dormant') === true
    this.#isTableKnown = table !== undefined && !this.#isUnusable
    const names = new Set(
      this.#isUnusable
        ? []
        : sets.filter((set) => !isAnonymous(set) && !this.#isOwnSet(set)).map(({ set }) => set),
    )
    const shared = chains.filter(({ chain }) => parseOwnChainName(chain) === undefined)
    const found = new Map(this.#isUnusable ? [] : shared.map((chain) => [chain.chain, chain]))
    const missingSets = [...this.#sets].filter((set) => !names.has(set))
    const missingChains = [...this.#chains.keys()].filter((chain) => !found.has(chain))
    this.#sets.clear()
    for (const name of names) this.#sets.add(name)
    this.#counters.clear()
    if (!this.#isUnusable) for (const name of counters) this.#counters.add(name)
    for (const name of missingChains) this.#chains.delete(name)
    for (const [name, { hook }] of found)
      this.#chains.set(name, { ...this.#chains.get(name), hook, rules: this.#chains.get(name)?.rules })
    return { missingSets, missingChains }
  }

  /** Takes in the rules of a chain of the structure. False: they differ from the acknowledged ones, and from those that we want. */
  readRules(name: string, found: readonly NfRuleState[]): boolean {
    const known = this.#chains.get(name)
    if (known === undefined) return true
    this.#lacking = undefined
    const wanted = this.#wantedChains.get(name)
    const { hook } = known
    const candidates = isSameHook(wanted?.chain.hook, hook) ? [wanted?.rules ?? [], known.rules] : []
    const rules = candidates.find((expected) => expected !== undefined && areSameRules(expected, found))
    this.#chains.set(name, rules === undefined ? { hook, rules, found } : { hook, rules })
    return rules !== undefined || known.rules === undefined
  }

  /** Whether a chain has a rule that we neither wrote nor want. What is left of ours in its order has none. */
  hasForeignRules(name: string, found: readonly NfRuleState[]): boolean {
    const wanted = this.#wantedChains.get(name)?.rules ?? []
    const written = this.#chains.get(name)?.rules ?? []
    return !isPartOf(found, written) && !isPartOf(found, wanted)
  }

  /** Whether a chain has some of the rules that we wrote, in their order, and no others. */
  hasLostRules(name: string, found: readonly NfRuleState[]): boolean {
    return found.length > 0 && isPartOf(found, this.#chains.get(name)?.rules ?? [])
  }

  /** Whether the kernel has the chain with the rules that we want, or we do not want it. */
  isAsWanted(name: string): boolean {
    const wanted = this.#wantedChains.get(name)
    return wanted === undefined || this.#isAcknowledged(wanted)
  }

  /** Whether most rules of the chains that the kernel had are gone, and none that we neither wrote nor want is there. */
  isFlushed(found: readonly NfRuleState[]): boolean {
    let written = 0
    let left = 0
    const foundByChain = rulesByChain(found)
    for (const [name, { rules = [] }] of this.#chains) {
      const rulesOfChain = foundByChain.get(name) ?? []
      if (this.hasForeignRules(name, rulesOfChain)) return false
      written += rules.length
      left += rulesOfChain.length
    }
    return left < written / 2
  }

  /** The chains of the structure that the kernel lacks, or has with other rules than it had after the last write, by what was read. */
  compare(
    chains: readonly NfChainState[],
    rules: readonly NfRuleState[],
  ): Omit<StructureDrift, 'missingSets'> {
    const hooks = new Map(chains.map(({ chain, hook }) => [chain, hook]))
    const foundByChain = rulesByChain(rules)
    const missing = this.chains.filter(({ chain }) => !hooks.has(chain.chain))
    const changed = this.chains.filter(({ chain, rules: wanted }) => {
      if (!hooks.has(chain.chain)) return false
      const found = foundByChain.get(chain.chain) ?? []
      const expected = this.#chains.get(chain.chain)?.rules ?? wanted
      return !isSameHook(chain.hook, hooks.get(chain.chain)) || !areSameRules(expected, found)
    })
    return { missingChains: namesOf(missing), changedChains: namesOf(changed) }
  }

  /** Whether a chain of this name is in the kernel and in the structure. */
  isReadable(name: string): boolean {
    return this.#chains.has(name) && this.#wantedChains.has(name)
  }

  /** A set of clients: it belongs to own chains (OwnPorts). */
  #isOwnSet({ set }: NfSetState): boolean {
    return clientSet(this.#schema, set) !== undefined
  }

  #findLacking(): Lacking {
    return (this.#lacking ??= {
      sets: this.sets.filter(({ set }) => !this.#sets.has(set)),
      chains: this.chains.filter((chain) => !this.#isAcknowledged(chain)),
      isServing: [...this.#chains.values()].some(({ hook }) => hook !== undefined),
    })
  }

  #isAcknowledged({ chain, rules }: StructureChain): boolean {
    const known = this.#chains.get(chain.chain)
    if (known?.rules === undefined || !isSameHook(chain.hook, known.hook)) return false
    return known.rules === rules
  }

  /** A chain's hook never changes: the chain is made again. Nothing jumps to a base chain. */
  #makeChain(chain: NfChain): readonly NfOp[] {
    const known = this.#chains.get(chain.chain)
    if (known === undefined) return [{ op: 'add-chain', chain }]
    if (isSameHook(chain.hook, known.hook)) return []
    return [
      { op: 'delete-chain', chain },
      { op: 'add-chain', chain },
    ]
  }

  #rulesOf({ chain, rules }: StructureChain): readonly NfOp[] {
    const known = this.#chains.get(chain.chain)
    const isEmpty = known === undefined || !isSameHook(chain.hook, known.hook)
    return [
      ...(isEmpty ? [] : [{ op: 'flush-chain', chain } as const]),
      ...rules.map((rule) => ({ op: 'add-rule', rule }) as const),
    ]
  }
}

function namesOf(chains: readonly StructureChain[]): readonly string[] {
  return chains.map(({ chain }) => chain.chain)
}

/** The rules of each chain, in order. */
export function rulesByChain(rules: readonly NfRuleState[]): ReadonlyMap<string, readonly NfRuleState[]> {
  const chains = new Map<string, NfRuleState[]>()
  for (const rule of rules) {
    const known = chains.get(rule.chain)
    if (known === undefined) chains.set(rule.chain, [rule])
    else known.push(rule)
  }
  return chains
}

function areSameRules(expected: readonly NfRule[], found: readonly NfRule[]): boolean {
  return (
    expected === found ||
    (found.length === expected.length &&
      found.every((rule, index) => {
        const other = expected[index]
        return other !== undefined && isSameRule(other, rule)
      }))
  )
}

/** Whether the rules are some of the others, in their order. */
function isPartOf(found: readonly NfRuleState[], rules: readonly NfRule[]): boolean {
  let next = 0
  return found.every((rule) => {
    while (next < rules.length) {
      const other = rules[next++]
      if (other !== undefined && isSameRule(other, rule)) return true
    }
    return false
  })
}

function isSameHook(a: NfHook | undefined, b: NfHook | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return (
    a.type === b.type &&
    a.hook === b.hook &&
    a.priority === b.priority &&
    (a.policy ?? 'accept') === (b.policy ?? 'accept')
  )
}

/** Sets in rules of nft's: the kernel removes them with their rules. */
const anonymousFlag = 1

function isAnonymous({ attributes }: NfSetState): boolean {
  return ((attributes.flags ?? 0) & anonymousFlag) !== 0
}
