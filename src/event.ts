// Reports about objects that become Events of the API (docs/events.md). The room events/ sends them.

export interface ObjectReference {
  readonly apiVersion: 'v1'
  readonly kind: 'Node' | 'Service'
  /** Absent: the object has none. */
  readonly namespace?: string
  readonly name: string
}

/** The content of an Event, without its reporter and its time. */
export interface EventReport {
  readonly type: 'Normal' | 'Warning'
  /** Why, in one word: machines read it. */
  readonly reason: string
  /** What was done, or was to be done. */
  readonly action: string
  readonly regarding: ObjectReference
  /** For people. */
  readonly note: string
}

export interface EventRecorder {
  /** Returns at once and never throws; what becomes of the event is no matter of who records it. */
  record(event: EventReport): void
}

/** As kube-proxy names its node: without a UID. */
export function nodeReference(name: string): ObjectReference {
  return { apiVersion: 'v1', kind: 'Node', name }
}

export function serviceReference(namespace: string, name: string): ObjectReference {
  return { apiVersion: 'v1', kind: 'Service', namespace, name }
}
