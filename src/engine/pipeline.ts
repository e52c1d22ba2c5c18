import type { LinkEvent } from '../kernel/index.js'
import type { PacketTotals } from '../metrics/index.js'
import type { NodeChange } from '../node/index.js'
import type { Route } from '../routing/index.js'
import type { ObjectEvent } from '../source/index.js'
import type { FamilyHealth } from './backlog.js'

/**
 * One family's way from events to the kernel, in one proxy mode. `runOnce` runs alone; everything else may come at any time,
 * and says whether a run is wanted.
 */
export interface Pipeline {
  apply(events: readonly ObjectEvent[]): boolean
  applyNode(change: NodeChange): boolean
  applyLinks(events: readonly LinkEvent[]): boolean
  /** A run in progress ends as soon as it can. */
  stopSoon(): void
  /**
   * One pass. Nothing happens before the objects were listed; what was in the kernel before stays until all are known.
   * Resolves with the milliseconds after which there is work without a new event; undefined: there is none.
   */
  runOnce(): Promise<number | undefined>
  /** The whole world was in the kernel once. */
  readonly isInForce: boolean
  /** Asked at any time. */
  readonly health: FamilyHealth
  /** In modes whose rules count them; asked at any time. */
  countPackets?(): Promise<PacketTotals>
  /**
   * The kernel objects that the mode wants for a route now, a line each, in the syntax of the tools that list them. It changes
   * nothing and reads no kernel. Empty before the first run that knows the node's addresses. At most 1001 lines.
   */
  describe(route: Route): readonly string[]
  /** Gives back what it holds, when no run will come any more. Idempotent. */
  close(): Promise<void>
}
