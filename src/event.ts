// Reports about objects that become Events of the Kubernetes API (docs/events.md). The room events/ sends them.

interface ObjectReference {
  readonly apiVersion: 'v1'
  readonly kind: 'Node' | 'Service'
  /** Absent for objects without a namespace, such as Nodes. */
  readonly namespace?: string
  readonly name: string
}

/** An Event without its reporter and its time, which the sender adds. */
export interface EventReport {
  readonly type: 'Normal' | 'Warning'
  /** The reason, in one word, for machines. */
  readonly reason: string
  /** The action that was taken, or that failed. */
  readonly action: string
  readonly regarding: ObjectReference
  /** The text for people. */
  readonly note: string
}

export interface EventRecorder {
  /** Queues the event. Returns at once and never throws, whether or not the event can be sent. */
  record(event: EventReport): void
}

/** The Node, without a UID, as kube-proxy refers to it. */
export function nodeReference(name: string): ObjectReference {
  return { apiVersion: 'v1', kind: 'Node', name }
}

export function serviceReference(namespace: string, name: string): ObjectReference {
  return { apiVersion: 'v1', kind: 'Service', namespace, name }
}
