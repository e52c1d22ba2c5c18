import type { RulePackets } from './xtables.js'

/** Packet counts as the addon returns them: for each chain the number of its rules, then their packets. */
export class PackedRulePackets implements RulePackets {
  readonly #counts: Float64Array
  /** The place of each chain's number of rules in `#counts`. */
  readonly #places: Uint32Array

  constructor(counts: Float64Array, chains: number) {
    this.#counts = counts
    this.#places = new Uint32Array(chains)
    for (let chain = 0, place = 0; chain < chains; chain++) {
      this.#places[chain] = place
      place += 1 + (counts[place] ?? 0)
    }
  }

  static of(chains: readonly (readonly number[])[]): PackedRulePackets {
    return new PackedRulePackets(
      Float64Array.from(chains.flatMap((packets) => [packets.length, ...packets])),
      chains.length,
    )
  }

  sizeOf(chain: number): number {
    return this.#counts[this.#places[chain] ?? this.#counts.length] ?? 0
  }

  at(chain: number, rule: number): number | undefined {
    const size = this.sizeOf(chain)
    const place = this.#places[chain]
    const at = rule < 0 ? size + rule : rule
    return place === undefined || at < 0 || at >= size ? undefined : this.#counts[place + 1 + at]
  }

  *[Symbol.iterator](): Iterator<readonly number[]> {
    for (const place of this.#places)
      yield [...this.#counts.subarray(place + 1, place + 1 + (this.#counts[place] ?? 0))]
  }
}
