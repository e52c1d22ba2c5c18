// In: snapshots of the agent (inspect/). Out: replies on a Unix socket, to processes of root or of the agent's own user.
// Never: a change of the agent or the kernel.
// Owner of: the control socket, its file and its folder.
// Read next: control-server.ts, pages.ts; commands/ (the client).
export { ControlServer } from './control-server.js'
export { controlPages } from './pages.js'
