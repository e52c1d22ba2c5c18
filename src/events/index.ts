// In: EventReports of any room. Out: Events of the API server (events.k8s.io/v1), as kube-proxy writes them; a debug line for each.
// Never: delays or fails a caller; sends more requests than clientConnection.qps and burst allow.
// Owner of: the recent Events, so that repeated reports are counted; the queue of Events to send.
// Read next: event-sender.ts; event-series.ts; ../event.ts (the report).
export { EventSender } from './event-sender.js'
