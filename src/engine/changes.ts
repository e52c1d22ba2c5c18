import type { Tracker } from '../model/index.js'
import type { ObjectEvent } from '../source/index.js'

/** An event that changed the tracker, or the fact that a Service (`namespace/name`) lost an EndpointSlice. */
export type Change = ObjectEvent | { readonly type: 'slice-gone'; readonly service: string }

/** Applies the events to the tracker. Returns the changes, in order. */
export function applyEvents(tracker: Tracker, events: readonly ObjectEvent[]): readonly Change[] {
  const changes: Change[] = []
  for (const event of events) {
    // Before the slice is removed: afterwards the tracker does not know its Service.
    const service =
      event.type === 'delete' && event.kind === 'EndpointSlice' ? tracker.serviceOf(event.key) : undefined
    if (service !== undefined) changes.push({ type: 'slice-gone', service })
    if (tracker.apply(event)) changes.push(event)
  }
  return changes
}
