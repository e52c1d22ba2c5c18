// The packet mark of a connection's first packet, bit by bit.
import type { MarkChange } from '../kernel/index.js'

const everyBit = 0xffffffff

/** The answer to whether the mark is the expected one. `by`: the rule that decides, as `Walk` names it; undefined: no rule. */
export interface MarkComparison {
  readonly state: 'same' | 'other' | 'unknown'
  readonly by: string | undefined
}

/** The mark of a packet while it passes rules. It begins as 0. */
export class PacketMark {
  #value = 0
  /** The bits whose values are known. */
  #known = everyBit
  /** The changes, the last one last. */
  readonly #changes: { readonly bits: number; readonly by: () => string }[] = []

  /** `isSure` false: the change may not happen. `by`: its rule, which is asked for only if it decides. */
  change({ mask, value }: MarkChange, isSure: boolean, by: () => string): void {
    const changed = (this.#value & ~mask) ^ (value ?? 0)
    const known = value === undefined ? this.#known & ~mask : this.#known | mask
    // In doubt a bit is known if it is the same with the change and without it.
    const next = isSure ? known : known & this.#known & ~(changed ^ this.#value)
    const bits = (changed ^ this.#value) | (next ^ this.#known)
    if (bits !== 0) this.#changes.push({ bits, by })
    if (isSure) this.#value = changed
    this.#known = next
  }

  /** Whether the mark is `expected`, apart from the bits `ignored`. */
  compare(expected: number, ignored: number): MarkComparison {
    const other = (this.#value ^ expected) & this.#known & ~ignored
    const open = ~this.#known & ~ignored
    const bits = other === 0 ? open : other
    const by = this.#changes.findLast((change) => (change.bits & bits) !== 0)?.by
    return { state: other !== 0 ? 'other' : open !== 0 ? 'unknown' : 'same', by: by?.() }
  }
}
