import type { ServicePortKey } from '../../../model/index.js'

/**
 * The firewall marks of service ports (docs/adr/0011). Every mark lies in the mask and has the mask's highest bit, so that no mark is
 * a small number, as administrators choose them. The mask's other bits, from the lowest on, count the marks. A mask of n bits gives
 * 2^(n-1) marks.
 */
export class MarkTable {
  readonly #mask: number
  readonly #highest: number
  /** Values of the mask's other bits, ascending. */
  readonly #counting: readonly number[]
  readonly #marks = new Map<ServicePortKey, number>()
  /** Marks of service ports, and resting marks. */
  readonly #taken = new Set<number>()
  /** Released marks, to which frontends may still lead. */
  readonly #resting = new Set<number>()
  /** The number of the last mark that a search found. */
  #lastFound = 0

  constructor(mask: number) {
    const bits = Array.from({ length: 32 }, (_, place) => 2 ** place).filter((bit) => (mask & bit) !== 0)
    this.#mask = mask
    this.#highest = bits.at(-1) ?? 0
    this.#counting = bits.slice(0, -1)
  }

  /** How many marks there are. */
  get size(): number {
    return 2 ** this.#counting.length
  }

  /**
   * The mark of a service port until it is released. `former`: gets the preferred mark, by the service port's name, and returns the
   * service port's mark in the kernel, which is kept so that a restart changes nothing. `isReserved`: whether the kernel has a
   * virtual server of this mark that belongs to another program or to no known service port. undefined: all are taken.
   */
  take(
    key: ServicePortKey,
    {
      former,
      isReserved,
    }: {
      readonly former: (preferred: number) => number | undefined
      readonly isReserved: (mark: number) => boolean
    },
  ): number | undefined {
    const known = this.#marks.get(key)
    if (known !== undefined) return known
    const start = hashOf(key)
    const before = former(this.#markAt(start))
    const mark = before !== undefined && this.#isFree(before) ? before : this.#findFree(start, isReserved)
    if (mark === undefined) return undefined
    this.#marks.set(key, mark)
    this.#taken.add(mark)
    return mark
  }

  /** The service port's mark is not given out again before `settle` finds that nothing leads to it. */
  release(key: ServicePortKey): void {
    const mark = this.#marks.get(key)
    if (mark === undefined) return
    this.#marks.delete(key)
    this.#resting.add(mark)
  }

  /** Frees the released marks that are not among `leads`, the acknowledged marks of frontends. True: at least one mark is free now. */
  settle(leads: () => ReadonlySet<number>): boolean {
    if (this.#resting.size === 0) return false
    const led = leads()
    const free = [...this.#resting].filter((mark) => !led.has(mark))
    for (const mark of free) {
      this.#resting.delete(mark)
      this.#taken.delete(mark)
    }
    return free.length > 0
  }

  /** Number of free marks. */
  get freeCount(): number {
    return this.size - this.#taken.size
  }

  /** undefined: the service port has no mark. */
  markOf(key: ServicePortKey): number | undefined {
    return this.#marks.get(key)
  }

  /** The service ports with a mark, and their marks. */
  get entries(): Iterable<readonly [ServicePortKey, number]> {
    return this.#marks
  }

  /**
   * The mark for the number, or else the next free one after the last that was found so. From the number on, names that an attacker chose
   * for one number would all search through the same marks.
   */
  #findFree(start: number, isReserved: (mark: number) => boolean): number | undefined {
    if (this.freeCount === 0) return undefined
    const isUsable = (mark: number): boolean => !this.#taken.has(mark) && !isReserved(mark)
    const preferred = this.#markAt(start)
    if (isUsable(preferred)) return preferred
    for (let step = 1; step <= this.size; step++) {
      const place = (this.#lastFound + step) % this.size
      const mark = this.#markAt(place)
      if (!isUsable(mark)) continue
      this.#lastFound = place
      return mark
    }
    return undefined
  }

  /** The mark for a number, modulo the number of marks: its bits, distributed over those of the mask. */
  #markAt(number: number): number {
    const index = number % this.size
    return this.#counting.reduce(
      (mark, bit, place) => mark + (Math.floor(index / 2 ** place) % 2) * bit,
      this.#highest,
    )
  }

  #isFree(mark: number): boolean {
    const isPossible = (mark & ~this.#mask) === 0 && (mark & this.#highest) !== 0
    return isPossible && !this.#taken.has(mark)
  }
}

/** FNV-1a: the same on every node and after every restart. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash
}
