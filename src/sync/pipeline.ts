import type { LinkEvent } from '../kernel/index.js'
import type { ObjectEvent } from '../source/index.js'

/** One family's way from events to the kernel, in one proxy mode. `runOnce` runs alone; everything else may come at any time. */
export interface Pipeline {
  /** Takes events in; the caller asks for a run. True: there is something to do. */
  apply(events: readonly ObjectEvent[]): boolean
  /** Topology hints may choose other endpoints everywhere. */
  markAll(): void
  /** The next run looks at the kernel again, and at what it knows about this node. */
  requestReconcile(): void
  /** Whether a change of a link or an address is a reason to look again. */
  concerns(event: LinkEvent): boolean
  /** A run in progress ends as soon as it can. */
  stopSoon(): void
  /** One pass. Resolves with the milliseconds after which there is work without a new event; undefined: there is none. */
  runOnce(): Promise<number | undefined>
  /** Gives back what it holds, when no run will come any more. */
  close(): Promise<void>
}
