import type { Tracker } from '../model/index.js'
import type { EndpointSlice, ObjectChange } from '../source/index.js'

/** A fact that the work that waits depends on. */
export type Change =
  /** An event that changed the tracker. */
  | ObjectChange
  /** A slice's state that a newer one replaced before it was applied. */
  | { readonly type: 'replaced'; readonly object: EndpointSlice }
  /** A Service (`namespace/name`) lost an EndpointSlice. */
  | { readonly type: 'slice-gone'; readonly service: string }

/** Applies the event to the tracker. Returns what it changed, in order; empty: nothing. */
export function applyChange(tracker: Tracker, event: ObjectChange): readonly Change[] {
  // Before the slice is removed: afterwards the tracker does not know its Service.
  const service =
    event.type === 'delete' && event.kind === 'EndpointSlice' ? tracker.serviceOf(event.key) : undefined
  const changes: Change[] = service === undefined ? [] : [{ type: 'slice-gone', service }]
  if (tracker.apply(event)) changes.push(event)
  return changes
}

/** The facts that remain of `event` when `newer` replaces it before it was applied; empty: none. */
export function replacedChange(event: ObjectChange, newer: ObjectChange): readonly Change[] {
  if (event.type !== 'set' || event.object.kind !== 'EndpointSlice') return []
  if (newer.type === 'set') return [{ type: 'replaced', object: event.object }]
  const { namespace, serviceName } = event.object
  return serviceName === undefined ? [] : [{ type: 'slice-gone', service: `${namespace}/${serviceName}` }]
}
