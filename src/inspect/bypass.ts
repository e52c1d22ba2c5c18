// Rules of other programs that take a packet away before the rules of Services: untracked, accepted, or with another destination.
import type { NatPlace } from '../engine/index.js'
import { conntrackPriority, type FirewallEntrance, type FirewallRule } from '../kernel/index.js'
import {
  type BaseChain,
  type FirewallChains,
  type MetRule,
  type Passage,
  type RuleFollower,
  Walk,
} from './firewall.js'

/** A rule that takes the packet away. */
export interface Bypass {
  /**
   * `untracked`: conntrack does not track the packet. `accepted`: it leaves a chain that Viaduct shares before Viaduct's own rule.
   * `translated`: another program gives it another destination.
   */
  readonly kind: 'untracked' | 'accepted' | 'translated'
  /** False: it may do so. */
  readonly isSure: boolean
  /** The rule, one clause. */
  readonly by: string
}

/** The rules of Services that concern the packet in table nat. */
export interface NatConcern {
  /** undefined: none. */
  readonly place: NatPlace | undefined
  /** They translate it: chains behind them do not see it. */
  readonly isTranslated: boolean
}

/**
 * The rules that take the packet away at the hook prerouting or output, with its original destination. None comes behind one that is sure.
 * Throws KernelError.
 */
export async function bypassesAt(
  passage: Passage,
  chains: FirewallChains,
  concern: NatConcern,
): Promise<readonly Bypass[]> {
  const tracking = new Tracking()
  for (const base of chains.at(passage.hook)) {
    const { priority } = base.entrance
    if (priority <= conntrackPriority) await new Walk(passage, chains, tracking.at(base)).through(base)
  }
  const untracked = tracking.found
  if (untracked?.isSure === true) return [untracked]
  const taken = await takenInNat(passage, chains, concern)
  return [untracked, taken].filter((each) => each !== undefined)
}

/** Follows the packet until conntrack sees it. */
class Tracking {
  /** The first rule that leaves it untracked for certain, else the first one that may. */
  found: Bypass | undefined
  #isDecided = false

  at({ entrance: { priority } }: BaseChain): RuleFollower {
    // Of two chains of one priority, either may come first.
    const isEarly = priority < conntrackPriority
    return { rule: (met) => this.#meet(met, isEarly), ownChain: () => undefined }
  }

  #meet({ rule: { tracking }, isSure, by }: MetRule, isEarly: boolean): void {
    if (tracking === undefined || this.#isDecided) return
    this.#isDecided = isSure && isEarly
    if (tracking === 'none' && (this.#isDecided || this.found === undefined))
      this.found = { kind: 'untracked', isSure: this.#isDecided, by: by() }
  }
}

type NatChain = BaseChain & { readonly entrance: FirewallEntrance & { readonly natOrder: number } }

/** The first rule that is sure, else the first one that is not. */
async function takenInNat(
  passage: Passage,
  chains: FirewallChains,
  { place, isTranslated }: NatConcern,
): Promise<Bypass | undefined> {
  const bases = chains
    .at(passage.hook)
    .filter((base): base is NatChain => base.entrance.natOrder !== undefined)
  const own = place?.chain === undefined ? undefined : await chainWithJump(bases, place.chain)
  let doubtful: Bypass | undefined
  for (const base of bases) {
    const isOwn = base === own
    const { natOrder } = base.entrance
    const isBehind = isTranslated && place !== undefined && natOrder > place.order
    if (isBehind) break
    const follower = new NatFollower(isOwn ? place?.chain : undefined, isTranslated)
    await new Walk(passage, chains, follower).through(base)
    const found = follower.found()
    // Of two chains of one priority, either may come first.
    const isOrdered = !isTranslated || isOwn || natOrder !== place?.order
    if (found?.isSure === true && isOrdered) return found
    doubtful ??= found && { ...found, isSure: false }
  }
  return doubtful
}

async function chainWithJump(bases: readonly NatChain[], chain: string): Promise<NatChain | undefined> {
  for (const base of bases) {
    const rules = await base.rules()
    if (rules.some(({ verdict }) => typeof verdict === 'object' && verdict.chain === chain)) return base
  }
  return undefined
}

/** Follows the packet through a chain of type nat. */
class NatFollower implements RuleFollower {
  /** Viaduct's chain to which this one jumps; undefined: to none. */
  readonly #own: string | undefined
  /** Viaduct's chain translates the packet. */
  readonly #isTranslated: boolean
  /** Whether the packet comes to Viaduct's chain. undefined: it does not. */
  #comesToOwn: 'surely' | 'maybe' | undefined
  #translated: Bypass | undefined
  /** The last rule that ends its way, and the first one that may. */
  #end: (() => string) | undefined
  #mayEnd: (() => string) | undefined

  constructor(own: string | undefined, isTranslated: boolean) {
    this.#own = own
    this.#isTranslated = isTranslated
  }

  rule({ rule, chain, isSure, by }: MetRule): void {
    if (this.#isTranslated && this.#comesToOwn !== undefined) return
    if (rule.isTranslating === true) {
      if (isSure || this.#translated === undefined)
        this.#translated = { kind: 'translated', isSure, by: by() }
    } else if (endsChain(rule, chain.entrance !== undefined)) {
      if (isSure && rule.verdict !== 'unknown') this.#end = by
      else this.#mayEnd ??= by
    }
  }

  ownChain(name: string, isSure: boolean): void {
    if (name === this.#own) this.#comesToOwn = isSure ? 'surely' : 'maybe'
  }

  found(): Bypass | undefined {
    if (this.#translated !== undefined || this.#own === undefined || this.#comesToOwn === 'surely')
      return this.#translated
    const isSure = this.#comesToOwn === undefined
    const by = isSure ? (this.#end ?? this.#mayEnd) : this.#mayEnd
    return by && { kind: 'accepted', isSure, by: by() }
  }
}

/** Whether the packet leaves the base chain by the rule, or may. */
function endsChain({ verdict }: FirewallRule, isInBase: boolean): boolean {
  if (typeof verdict === 'object') return verdict.isGoto && isInBase
  return verdict !== 'return' || isInBase
}
