// In: the kernel. Out: the tables of kube-proxy's nftables mode removed.
// Never: another mode; tables with other names.
// Owner of: nothing.
// Read next: kind.ts, clean-up.ts.
export { nftablesKind } from './kind.js'
