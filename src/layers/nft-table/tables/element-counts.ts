/** The numbers of elements that the kernel has in each set, as acknowledged. A number may be wrong until the set is read as a whole. */
export class ElementCounts {
  readonly #counts = new Map<string, number>()

  get(set: string): number {
    return this.#counts.get(set) ?? 0
  }

  set(set: string, count: number): void {
    this.#counts.set(set, count)
  }

  add(set: string, difference: number): void {
    if (difference !== 0) this.#counts.set(set, this.get(set) + difference)
  }
}
