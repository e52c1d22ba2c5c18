// In: parts, each a name and its text. Out: the files of an archive, bounded in size and time, without secrets.
// Never: loads the library of archives (tar-file.ts) before it writes one; reads the agent or the kernel (agent/).
// Owner of: what counts as a secret (secrets.ts).
// Read next: parts.ts.
export { type BundleFile, collect, type Part, writeBundle } from './parts.js'
