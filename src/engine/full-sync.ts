/** Whether a sync is a full one. A full sync that fails stays due: the next syncs are full, until one is written. */
export class FullSync {
  #isDue = false

  /** True: the sync that begins now is a full one. `isRequested`: it has a reason of its own. */
  begin(isRequested: boolean): boolean {
    this.#isDue ||= isRequested
    return this.#isDue
  }

  /** The sync is in the kernel. */
  noteWritten(): void {
    this.#isDue = false
  }
}
