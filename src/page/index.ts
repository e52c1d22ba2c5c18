// In: snapshots of the agent (inspect/). Out: the status page /ui of the metrics server, as HTML, and its changes as server-sent events.
// Never: a change of the agent or the kernel; text of an object in HTML without html.ts, which escapes it.
// Owner of: the samples of the last hour; the connections of /ui/events.
// Read next: status-page.ts, render.ts, html.ts.
export { StatusPage } from './status-page.js'
