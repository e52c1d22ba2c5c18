/** Differences in the kernel that another program made, by kind: `virtual-server-missing`, `set-entry-unexpected`. */
export type Drift<Kind extends string = string> = ReadonlyMap<Kind, number>

export class DriftCounter<Kind extends string> {
  readonly counts = new Map<Kind, number>()

  add(kind: Kind): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
  }
}
