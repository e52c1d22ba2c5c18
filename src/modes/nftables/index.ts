// In: Routes, the configuration, this node. Out: the mode's settings of the table of nf_tables, which ../../layers/nft-table programs.
// Never: another mode; Kubernetes objects.
// Owner of: nothing.
// Read next: mode.ts, node-settings.ts, clean-up.ts, ../../layers/nft-table/index.ts.
export { nftablesKind } from './kind.js'
