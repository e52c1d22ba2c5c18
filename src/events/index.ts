// In: EventReports of any room. Out: Events of the API server (events.k8s.io/v1), as kube-proxy writes them; a debug line for each.
// Never: a caller that waits or fails because of an event; more requests than clientConnection.qps and burst allow.
// Owner of: what was told lately, so that what repeats counts instead of piling up; what waits to be sent.
// Read next: event-sender.ts; event-series.ts; ../event.ts (what is told).
export { EventSender, type EventSenderOptions } from './event-sender.js'
