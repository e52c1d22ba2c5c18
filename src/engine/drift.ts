// What somebody else changed in the kernel, counted by kind.
import type { IpvsOp } from '../kernel/index.js'

export type DriftKind =
  | 'virtual-server-missing'
  | 'virtual-server-changed'
  | 'virtual-server-unexpected'
  | 'real-server-missing'
  | 'real-server-changed'
  | 'real-server-unexpected'
  | 'binding-missing'
  | 'binding-changed'
  | 'binding-unexpected'
  | 'set-missing'
  | 'set-entry-missing'
  | 'set-entry-changed'
  | 'set-entry-unexpected'

export type Drift = ReadonlyMap<DriftKind, number>

/** An operation that leads back to the acknowledged state says what had happened to it. */
const kindOfRepair: Readonly<Record<IpvsOp['op'], DriftKind | undefined>> = {
  'add-virtual-server': 'virtual-server-missing',
  'set-virtual-server': 'virtual-server-changed',
  'remove-virtual-server': 'virtual-server-unexpected',
  'add-real-server': 'real-server-missing',
  'set-real-server': 'real-server-changed',
  'remove-real-server': 'real-server-unexpected',
  'zero-virtual-server': undefined,
}

/** Counts drift; a missing virtual server counts once, not once more for each of its real servers. */
export class DriftCounter {
  readonly counts = new Map<DriftKind, number>()

  add(kind: DriftKind): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1)
  }

  addRepair(ops: readonly IpvsOp[]): void {
    const first = ops[0]
    const counted = first?.op === 'add-virtual-server' ? [first] : ops
    for (const { op } of counted) {
      const kind = kindOfRepair[op]
      if (kind !== undefined) this.add(kind)
    }
  }
}
