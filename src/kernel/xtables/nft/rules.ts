import type { IpFamily } from '../../../address.js'
import { type KernelError, orRefusal } from '../../../errors.js'
import type { Ipset } from '../../ipset/ipset.js'
import type { NfRuleState } from '../../nftables/nftables.js'
import { describeXtRule } from '../describe.js'
import { hasLateComment, type XtRule } from '../xtables.js'
import { decodeXtRule } from './decode.js'
import { type EncodedXtRule, encodeXtRule } from './encode.js'

/** A desired rule as it is written. Equal rules have equal text. */
export interface WrittenRule extends EncodedXtRule {
  readonly text: string
}

/** The kernel's number of each set that desired rules name, or the error of its search. */
export type SetNumbers = ReadonlyMap<string, number | KernelError>

/** IPSET_INVALID_ID. */
const noSet = 0xffff

/** Encodes rules, and compares them with those of the table. */
export class RuleCodec {
  readonly #family: IpFamily
  readonly #sets: SetNumbers
  readonly #setNames: ReadonlyMap<unknown, string>

  constructor(family: IpFamily, sets: SetNumbers) {
    this.#family = family
    this.#sets = sets
    this.#setNames = new Map([...sets].map(([name, number]) => [number, name]))
  }

  encode(rule: XtRule): WrittenRule {
    const indexOf = (set: string): number => {
      const number = this.#sets.get(set)
      return typeof number === 'number' ? number : noSet
    }
    const encoded = encodeXtRule(rule, { family: this.#family, indexOf })
    // The text of what is written: a network of `rule` may have host bits.
    return { ...encoded, text: this.#text(encoded) ?? describeXtRule(rule, this.#family) }
  }

  /** undefined: the rule is not one that Viaduct writes. A jump with the match `comment`, as iptables-nft writes it, is none. */
  textOf(rule: NfRuleState): string | undefined {
    return this.#text(rule)
  }

  #text(written: EncodedXtRule): string | undefined {
    const setOf = (index: number): string | undefined => this.#setNames.get(index)
    const rule = decodeXtRule(written, { family: this.#family, setOf })
    if (rule === undefined) return undefined
    const isOwn = hasLateComment(rule.target)
      ? rule.comment === written.comment
      : written.comment === undefined
    return isOwn ? describeXtRule(rule, this.#family) : undefined
  }
}

/** The set that a rule names. */
export function setNameOf({ set, target }: XtRule): string | undefined {
  return set?.name ?? (target.kind === 'map-mark' ? target.set.name : undefined)
}

export async function findSets(
  rules: readonly XtRule[],
  family: IpFamily,
  ipset: Ipset,
): Promise<SetNumbers> {
  const found = new Map<string, number | KernelError>()
  for (const rule of rules) {
    const name = setNameOf(rule)
    if (name === undefined || found.has(name)) continue
    found.set(name, await orRefusal(() => ipset.number(name, family)))
  }
  return found
}
