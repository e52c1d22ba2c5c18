import type { ServicePortKey } from '../model/index.js'

/**
 * Firewall marks of service ports whose connections from outside have a virtual server of their own (docs/adr/0011). Below
 * 0x4000: the bits above are those that others use (kubelet drops by 0x8000, Calico and others have the upper half).
 */
const marks = 0x4000

/** Who has which mark. */
export class MarkTable {
  /** Asks for masquerading, and is never part of a mark. */
  readonly #masqueradeMark: number
  readonly #marks = new Map<ServicePortKey, number>()
  readonly #taken = new Set<number>()

  constructor(masqueradeMark: number) {
    this.#masqueradeMark = masqueradeMark
  }

  /**
   * The mark of a service port, from now until it is released. `former`: what the kernel has for it, so that a restart changes
   * nothing, given the mark that it would have if it could choose; `isReserved`: marks that are somebody's still. undefined:
   * all are taken.
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
    const preferred = hashOf(key)
    const before = former(preferred)
    const mark = before !== undefined && this.#isFree(before) ? before : this.#findFree(preferred, isReserved)
    if (mark === undefined) return undefined
    this.#marks.set(key, mark)
    this.#taken.add(mark)
    return mark
  }

  release(key: ServicePortKey): void {
    const mark = this.#marks.get(key)
    if (mark === undefined) return
    this.#marks.delete(key)
    this.#taken.delete(mark)
  }

  #findFree(start: number, isReserved: (mark: number) => boolean): number | undefined {
    for (let step = 0; step < marks; step++) {
      const mark = (start + step) % marks
      if (this.#isFree(mark) && !isReserved(mark)) return mark
    }
    return undefined
  }

  #isFree(mark: number): boolean {
    const isUsable = mark > 0 && mark < marks && (mark & this.#masqueradeMark) === 0
    return isUsable && !this.#taken.has(mark)
  }
}

/** FNV-1a: the same on every node and after every restart. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash % marks
}
