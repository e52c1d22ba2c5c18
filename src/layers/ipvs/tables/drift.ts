// Kinds of drift in ipvs mode, as the metric viaduct_drift_total names them.
import { DriftCounter } from '../../objects/index.js'
import type { IpvsBatch, IpvsOp } from '../../../kernel/index.js'

export type IpvsDriftKind =
  | 'virtual-server-missing'
  | 'virtual-server-changed'
  | 'virtual-server-unexpected'
  | 'real-server-missing'
  | 'real-server-changed'
  | 'real-server-unexpected'
  | 'set-missing'
  | 'set-entry-missing'
  | 'set-entry-changed'
  | 'set-entry-unexpected'

/** The drift that an operation repairs. */
const kindOfRepair: Readonly<Record<IpvsOp['op'], IpvsDriftKind | undefined>> = {
  'add-virtual-server': 'virtual-server-missing',
  'set-virtual-server': 'virtual-server-changed',
  'remove-virtual-server': 'virtual-server-unexpected',
  'add-real-server': 'real-server-missing',
  'set-real-server': 'real-server-changed',
  'remove-real-server': 'real-server-unexpected',
  'zero-virtual-server': undefined,
}

export class IpvsDriftCounter extends DriftCounter<IpvsDriftKind> {
  /**
   * Counts the differences that these operations repair. They lead one virtual server back to its acknowledged state. Real servers
   * of a missing virtual server do not count.
   */
  addRepair({ counts }: Pick<IpvsBatch, 'counts'>): void {
    const isMissing = (counts.get('add-virtual-server') ?? 0) > 0
    for (const [op, count] of counts) {
      const kind = kindOfRepair[op]
      if (kind !== undefined && (!isMissing || op === 'add-virtual-server')) this.add(kind, count)
    }
  }
}
